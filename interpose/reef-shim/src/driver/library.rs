//! Library of the real driver, opened at the first call.

use super::state::{decide, decide_copies, decide_limits, decide_profile, pause_profile};
use crate::settings::{
    is_limited, is_profile_enabled, is_range_enabled, is_scheduled, limits_time,
};
use reef_guest::library_path::{self, candidates};
use std::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

/// Opening has not begun, is under way, is over.
const NEW: u32 = 0;
const OPENING: u32 = 1;
const OVER: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(NEW);
/// Thread that opens the library: the driver may call back into this one in the meantime.
static OPENER: AtomicI32 = AtomicI32::new(0);
/// Handle of the library; zero: there is no driver.
static HANDLE: AtomicUsize = AtomicUsize::new(0);
/// Path of the library, for reports; a leaked `PathBuf`.
static PATH: AtomicUsize = AtomicUsize::new(0);

/// Returns the address of a function of the real driver. `Ok(None)`: the driver doesn't have it.
/// `Err`: there is no driver.
pub(super) fn symbol(name: &CStr) -> Result<Option<usize>, ()> {
    open();
    let handle = HANDLE.load(Ordering::Acquire);
    if handle == 0 {
        return Err(());
    }
    // SAFETY: a handle of `dlopen` that is never closed, and a string.
    let found = unsafe { libc::dlsym(handle as *mut c_void, name.as_ptr()) };
    Ok((!found.is_null()).then_some(found as usize))
}

/// Returns the file of the real driver.
pub(crate) fn path() -> Option<&'static Path> {
    let path = PATH.load(Ordering::Acquire) as *const PathBuf;
    // SAFETY: null, or leaked by `open_first`.
    unsafe { path.as_ref() }.map(PathBuf::as_path)
}

/// Opens the driver, or waits until another thread has.
fn open() {
    // SAFETY: asks for a number.
    let thread = unsafe { libc::gettid() };
    match STATE.compare_exchange(NEW, OPENING, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            OPENER.store(thread, Ordering::Relaxed);
            HANDLE.store(open_first(), Ordering::Release);
            decide(is_scheduled());
            decide_limits(is_limited());
            decide_copies(limits_time());
            decide_profile(is_profile_enabled());
            if is_range_enabled() {
                pause_profile();
            }
            STATE.store(OVER, Ordering::Release);
        }
        // A function that this thread calls while it opens the driver isn't available yet.
        Err(OPENING) if OPENER.load(Ordering::Relaxed) == thread => {}
        Err(_) => {
            while STATE.load(Ordering::Acquire) != OVER {
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        }
    }
}

fn open_first() -> usize {
    let opened = candidates("libcuda.so.1", reef_files::variable("REEF_CUDA"))
        .into_iter()
        .find_map(|path| Some((try_open(&path)?, path)));
    let Some((handle, path)) = opened else { return 0 };
    PATH.store(Box::into_raw(Box::new(path)) as usize, Ordering::Release);
    handle
}

/// Opens a library by its path, if it is a driver: not this library, nor a copy of it, also of
/// another version, which would count and hold everything a second time.
fn try_open(path: &Path) -> Option<usize> {
    let handle = library_path::open(path, c"cuInit", try_open as *const () as usize)?;
    // SAFETY: a handle, and a string.
    let ours = unsafe { libc::dlsym(handle as *mut c_void, c"reef_unknown_variants".as_ptr()) };
    ours.is_null().then_some(handle)
}
