//! Begin and end of the profile, and its ranges.

use super::active::{active, say};
use super::finish::{self, WriterGuard};
use super::writer;
use crate::driver::state::{pause_profile, resume_profile};
use crate::settings::is_range_enabled;
use crate::thread;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Begins the profile when the driver is initialized: not everything is ready when the driver is
/// opened.
pub(crate) fn begin() {
    static IS_BEGUN: AtomicBool = AtomicBool::new(false);
    let Some(active) = active().filter(|active| active.process == std::process::id()) else {
        return;
    };
    if IS_BEGUN.swap(true, Relaxed) {
        return;
    }
    // SAFETY: a function that calls no driver.
    unsafe { libc::atexit(end) };
    let writing = WriterGuard::begin();
    match thread::spawn("reef-profile", || writer::run(active, writing)) {
        Ok(_) => finish::handle_signal(active.process),
        Err(error) => say(&format!("no thread: {error}")),
    }
}

extern "C" fn end() {
    if let Some(active) = active().filter(|active| active.process == std::process::id()) {
        let _ = std::io::stderr().write_all(active.finish().as_bytes()); // stderr may be closed
    }
}

/// Begins or ends a range, if the program selects the recorded calls.
pub(crate) fn range(is_begin: bool, real: impl FnOnce() -> u32) -> u32 {
    if is_range_enabled() {
        if is_begin { resume_profile() } else { pause_profile() }
    }
    real()
}
