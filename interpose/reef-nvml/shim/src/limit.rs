//! Memory limit of this program's job on a device, and the memory that the job has.

use crate::slots::{self, address};
use reef_guest::limit::{Audit, Limits, folder};
use std::ffi::{c_char, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

/// `nvmlDevice_t`.
pub(crate) type Device = *mut c_void;

/// Memory of a device as a job sees it, in bytes.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) limit: u64,
    /// Bytes that the job has, as far as it has joined the accounts file.
    pub(crate) used: u64,
    /// The job's processes that have joined it.
    pub(crate) processes: Vec<u32>,
}

/// Reads the limits of the environment, once. An invalid value limits nothing here: the driver's
/// library refuses the device then.
fn limits() -> Option<&'static Limits> {
    static LIMITS: OnceLock<Option<Limits>> = OnceLock::new();
    LIMITS.get_or_init(|| Limits::read(variable).ok().flatten()).as_ref()
}

fn variable(name: &str) -> Option<String> {
    reef_guest::variable(name).map(|value| value.to_string_lossy().into_owned())
}

/// Returns the folder of accounts files. It is read once, because programs may change their
/// environment while other threads ask.
fn accounts_folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| folder(variable))
}

/// Returns the limit on a device. Before a process of the job has used the device, its number among
/// the visible ones is unknown, so the limit of each device applies. `None`: there is no limit.
///
/// Accounts files are open only during the call: the program might close a file of ours, and reuse
/// its number. There is no lock either, which a child process could find taken.
pub(crate) fn of(device: Device) -> Option<Limit> {
    let limits = limits().filter(|limits| limits.has_memory())?;
    let job = uuid(device).and_then(|uuid| {
        let mut audit = Audit::new(accounts_folder().clone());
        let _ = audit.refresh(); // what can't be read isn't joined
        audit.jobs().into_iter().find(|job| job.device == uuid && job.is_of(limits))
    });
    let its = job.iter().flat_map(|job| &job.processes);
    let processes: Vec<u32> = its.map(|process| process.pid).collect();
    match job.and_then(|job| Some((job.memory?, job.used))) {
        Some((limit, used)) => Some(Limit { limit, used, processes }),
        None => limits.memory.each.map(|limit| Limit { limit, used: 0, processes }),
    }
}

fn uuid(device: Device) -> Option<[u8; 16]> {
    let at = address(slots::UUID);
    let mut text = [0_u8; 96]; // NVML_DEVICE_UUID_V2_BUFFER_SIZE
    // SAFETY: the real library's `nvmlDeviceGetUUID`, or a function that looks at no argument; room
    // of this length.
    let code = unsafe {
        let get =
            std::mem::transmute::<usize, unsafe extern "C" fn(Device, *mut c_char, u32) -> u32>(at);
        get(device, text.as_mut_ptr().cast(), text.len() as u32)
    };
    let text = std::str::from_utf8(text.split(|byte| *byte == 0).next()?).ok()?;
    let hex: String = text.split_once('-')?.1.chars().filter(char::is_ascii_hexdigit).collect();
    (code == 0 && hex.len() == 32).then_some(())?;
    u128::from_str_radix(&hex, 16).ok().map(u128::to_be_bytes)
}
