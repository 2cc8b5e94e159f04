//! Imported memory: its exporter is charged with it, and this process once that one has ended.
//!
//! A file by which memory or a pool is exported carries its exporter's number, as its owner for
//! signals (`fcntl(2)`): that stays with the file in all processes. No signal is ever sent, because
//! the file isn't asynchronous. For a handle of 64 bytes, a link in the accounts' folder has the
//! number.

use super::charges::{self, Charge, Kind};
use super::device::{self, LimitState, Limited};
use super::memory_handles::memory_table;
use super::sizes::granted;
use crate::driver::calls;
use crate::settings::settings;
use reef_guest::limit::{Account, has_process_ended, process_start};
use std::collections::{HashMap, HashSet};
use std::ffi::c_void;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard, Once};

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const FILE: u32 = 1;
/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`.
const ORDINAL: u32 = 9;
/// Commands of `fcntl(2)`.
const F_SETOWN: i32 = 8;
const F_GETOWN: i32 = 9;
const F_SETSIG: i32 = 10;
const F_GETSIG: i32 = 11;
/// Signal that shows that a file was exported by a process with limits.
const MARK: i32 = libc::SIGURG;

/// Process that is charged with memory which it has exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Exporter {
    process: u32,
    started: u64,
}

impl Exporter {
    /// Returns a process by its number, which may have ended. `None`: it is this one.
    fn other(process: u32) -> Option<Self> {
        let started = || process_start(process).unwrap_or(0);
        (process != std::process::id()).then(|| Self { process, started: started() })
    }

    fn has_ended(&self) -> bool {
        has_process_ended(self.process, self.started)
    }

    /// Returns whether it is charged. A process that has ended may have left its slot to a child.
    fn is_charged(&self, account: &Account) -> bool {
        !self.has_ended() || account.has_process(self.process, self.started)
    }
}

/// `CUipcMemHandle`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpcHandle([u8; 64]);

/// True once anything was imported: without imports, nothing is looked up.
static ARE_ANY: AtomicBool = AtomicBool::new(false);

/// Exporters of imported pools.
static POOLS: LazyLock<Mutex<HashMap<usize, Exporter>>> = LazyLock::new(Mutex::default);

fn pools() -> MutexGuard<'static, HashMap<usize, Exporter>> {
    POOLS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Marks what the driver has just exported as this process's, if it is a file.
pub(crate) fn mark(to: *const c_void, kind: u32) {
    if kind != FILE || to.is_null() {
        return;
    }
    // SAFETY: the driver has just written a file's number there. The rest are numbers, and the
    // kernel checks the file's.
    unsafe {
        let file = to.cast::<i32>().read();
        libc::fcntl(file, F_SETOWN, libc::getpid());
        libc::fcntl(file, F_SETSIG, MARK);
    }
}

/// Returns the process that is charged with what a file was exported for. `None`: it is this one,
/// or none with limits, or it is not a file.
pub(crate) fn exporter(file: usize, kind: u32) -> Option<Exporter> {
    let file = i32::try_from(file).ok().filter(|_| kind == FILE)?;
    // SAFETY: numbers alone, and the kernel checks the file's.
    let (signal, owner) = unsafe { (libc::fcntl(file, F_GETSIG), libc::fcntl(file, F_GETOWN)) };
    // The kernel names a process that has ended by 0.
    let process = u32::try_from(owner).unwrap_or(0);
    if signal == MARK { Exporter::other(process) } else { None }
}

/// Returns the folder of links, one for each handle.
fn links() -> PathBuf {
    settings().accounts.join("exports")
}

fn link(handle: &IpcHandle) -> PathBuf {
    let name: String = handle.0.iter().map(|byte| format!("{byte:02x}")).collect();
    links().join(name)
}

/// Returns the exporter that a link names.
fn read(link: &Path) -> Option<Exporter> {
    let text = fs::read_link(link).ok()?;
    let (process, started) = text.to_str()?.split_once('-')?;
    Some(Exporter { process: process.parse().ok()?, started: started.parse().ok()? })
}

/// Notes that a handle's memory is this process's. If the system refuses a link, importers are not
/// charged.
pub(crate) fn export(handle: &IpcHandle) {
    static ONCE: Once = Once::new();
    ONCE.call_once(sweep);
    let (process, link) = (std::process::id(), link(handle));
    let text = format!("{process}-{}", process_start(process).unwrap_or(0));
    let _ = fs::remove_file(&link); // of an earlier call
    let _ = symlink(text, link);
}

/// Makes the folder of links, and removes those of processes that have ended.
fn sweep() {
    let _ = fs::DirBuilder::new().mode(0o700).create(links()); // or it is there
    for entry in fs::read_dir(links()).into_iter().flatten().flatten() {
        let link = entry.path();
        if read(&link).is_none_or(|exporter| exporter.has_ended()) {
            let _ = fs::remove_file(link); // another process may do the same
        }
    }
}

/// Returns the process that is charged with a handle's memory. `None`: it is this one, or none with
/// limits.
pub(crate) fn exporter_of(handle: &IpcHandle) -> Option<Exporter> {
    read(&link(handle)).filter(|exporter| exporter.process != std::process::id())
}

/// Notes an imported pool.
pub(crate) fn note_pool(pool: usize, exporter: Option<Exporter>) {
    let mut pools = pools();
    match exporter {
        Some(exporter) => drop(pools.insert(pool, exporter)),
        None => drop(pools.remove(&pool)), // its handle came back
    }
}

/// Notes an allocation of an imported pool at an address.
pub(crate) fn note_pointer(at: usize, pool: usize) {
    let exporter = pools().get(&pool).copied();
    let charge = exporter.and_then(|exporter| charge(at, exporter));
    // No context ends an allocation of a pool.
    let charge = charge.map(|charge| Charge { context: 0, ..charge });
    charge.into_iter().for_each(|charge| charges::note(Kind::Memory, at, charge));
}

/// Notes memory that was opened by a handle at an address.
pub(crate) fn note_opened(at: usize, exporter: Exporter) {
    charge(at, exporter).into_iter().for_each(|charge| charges::open(at, charge));
}

/// Notes imported physical memory.
pub(crate) fn note_handle(handle: u64, device: &'static Limited, exporter: Exporter) {
    ARE_ANY.store(true, Relaxed);
    memory_table().import(handle, device, exporter);
}

/// Returns the charge of imported memory at an address, if it is on a device with limits.
fn charge(at: usize, exporter: Exporter) -> Option<Charge> {
    let (mut base, mut bytes, mut ordinal) = (0, 0, 0);
    let is_known = calls::address_range(&mut base, &mut bytes, at) == Some(0)
        && calls::pointer_attribute(&mut ordinal, ORDINAL, at) == Some(0);
    let state = is_known.then(|| device::of(ordinal as i32))?;
    let LimitState::Limited(device) = state else { return None };
    ARE_ANY.store(true, Relaxed);
    let charge = Charge::new(device, granted(bytes as u64), calls::context());
    Some(Charge { exporter: Some(exporter), ..charge })
}

/// Charges this process with its imports on a device whose exporters are not charged any more.
pub(crate) fn take_over(ordinal: i32, account: &Account) {
    if !ARE_ANY.load(Relaxed) {
        return;
    }
    let mut exporters = HashSet::new();
    memory_table().add_exporters(&mut exporters);
    charges::add_exporters(&mut exporters);
    exporters.retain(|exporter| !exporter.is_charged(account));
    if !exporters.is_empty() {
        memory_table().take_over(ordinal, &exporters);
        charges::take_over(ordinal, &exporters);
    }
}
