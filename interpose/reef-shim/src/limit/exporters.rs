//! Processes that have exported memory, as files and handles of 64 bytes name them.
//!
//! A file by which memory or a pool is exported has its exporter as its owner for signals
//! (`fcntl(2)`): that stays with the file in all processes. No signal is ever sent, because the
//! file isn't asynchronous. For a handle, a link in the accounts' folder names the process.

use crate::settings::settings;
use reef_guest::limit::{Account, has_process_ended, process_start};
use std::ffi::c_void;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once};

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const FILE: u32 = 1;
/// Commands of `fcntl(2)`.
const F_SETOWN: i32 = 8;
const F_GETOWN: i32 = 9;
const F_SETSIG: i32 = 10;
const F_GETSIG: i32 = 11;
/// Signal that shows that a file was exported by a process with limits.
const MARK: i32 = libc::SIGURG;
/// Maximum links of a process. Of more handles, those of the least memory have none.
const MAX_LINKS: usize = 1024;

/// Process that is charged with memory which it has exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Exporter {
    process: u32,
    started: u64,
}

impl Exporter {
    /// Returns the process of a number. The start of one that has ended is 0.
    fn new(process: u32) -> Self {
        Self { process, started: process_start(process).unwrap_or(0) }
    }

    /// Returns whether it is charged. A process that has ended may have left its slot to a child.
    pub(crate) fn is_charged(&self, account: &Account) -> bool {
        !has_process_ended(self.process, self.started)
            || account.has_process(self.process, self.started)
    }
}

/// `CUipcMemHandle`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpcHandle([u8; 64]);

/// Marks what the driver has just exported as this process's, if it is a file.
pub(crate) fn mark(to: *const c_void, kind: u32) {
    if kind != FILE || to.is_null() {
        return;
    }
    // SAFETY: the driver has just written a file's number there. The rest are numbers, and the
    // kernel checks the file's.
    unsafe {
        let file = to.cast::<i32>().read();
        if libc::fcntl(file, F_SETOWN, libc::getpid()) == 0 {
            libc::fcntl(file, F_SETSIG, MARK);
        }
    }
}

/// Returns the process that is charged with what a file was exported for. `None`: it is this one,
/// or none with limits, or it is not a file.
pub(crate) fn of_file(file: usize, kind: u32) -> Option<Exporter> {
    let file = i32::try_from(file).ok().filter(|_| kind == FILE)?;
    // SAFETY: numbers alone, and the kernel checks the file's.
    let (signal, owner) = unsafe { (libc::fcntl(file, F_GETSIG), libc::fcntl(file, F_GETOWN)) };
    // The kernel names a process that has ended by 0.
    let process = u32::try_from(owner).unwrap_or(0);
    (signal == MARK && process != std::process::id()).then(|| Exporter::new(process))
}

/// Returns the folder of links, one for each handle.
fn folder() -> PathBuf {
    settings().accounts.join("exports")
}

fn path(handle: &IpcHandle) -> PathBuf {
    let name: String = handle.0.iter().map(|byte| format!("{byte:02x}")).collect();
    folder().join(name)
}

/// Returns the exporter that a link names.
fn read(link: &Path) -> Option<Exporter> {
    let text = fs::read_link(link).ok()?;
    let (process, started) = text.to_str()?.split_once('-')?;
    Some(Exporter { process: process.parse().ok()?, started: started.parse().ok()? })
}

/// Link of this process, and the memory of its handle.
#[derive(Debug)]
struct Link {
    path: PathBuf,
    at: usize,
    bytes: u64,
}

/// Notes that a handle's memory of `bytes` bytes at `at` is this process's. If the system refuses a
/// link, importers are not charged. `is_allocated` returns whether memory at an address has not
/// ended.
pub(crate) fn link(
    handle: &IpcHandle,
    at: usize,
    bytes: u64,
    account: &Account,
    is_allocated: impl Fn(usize) -> bool,
) {
    static SWEEP: Once = Once::new();
    static LINKS: Mutex<Vec<Link>> = Mutex::new(Vec::new());
    SWEEP.call_once(|| sweep(account));
    let (own, path) = (Exporter::new(std::process::id()), path(handle));
    if read(&path) == Some(own) {
        return;
    }
    let _ = fs::remove_file(&path); // of a process that has ended
    if symlink(format!("{}-{}", own.process, own.started), &path).is_err() {
        return;
    }
    let mut links = LINKS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    links.push(Link { path, at, bytes });
    if links.len() > MAX_LINKS
        && let Some(least) = dispensable(&links, is_allocated)
    {
        let _ = fs::remove_file(links.remove(least).path);
    }
}

/// Returns the first link of memory that has ended, or the first one of the least memory.
fn dispensable(links: &[Link], is_allocated: impl Fn(usize) -> bool) -> Option<usize> {
    let ended = links.iter().position(|link| !is_allocated(link.at));
    ended.or_else(|| {
        let smallest = links.iter().enumerate().min_by_key(|(_, link)| link.bytes);
        smallest.map(|(at, _)| at)
    })
}

/// Makes the folder of links, and removes those of processes that have ended.
fn sweep(account: &Account) {
    let _ = fs::DirBuilder::new().mode(0o700).create(folder()); // or it is there
    for entry in fs::read_dir(folder()).into_iter().flatten().flatten() {
        let link = entry.path();
        if read(&link).is_none_or(|exporter| !exporter.is_charged(account)) {
            let _ = fs::remove_file(link); // another process may do the same
        }
    }
}

/// Returns the process that is charged with a handle's memory. `None`: it is this one, or none with
/// limits.
pub(crate) fn of_handle(handle: &IpcHandle) -> Option<Exporter> {
    read(&path(handle)).filter(|exporter| *exporter != Exporter::new(std::process::id()))
}
