//! The profile's beginning and end.

use super::active::{active, say};
use super::finish::{self, WriterGuard};
use super::writer;
use crate::driver::state::{pause_profile, resume_profile};
use crate::settings::is_range_enabled;
use crate::thread;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Begins, at the driver's beginning: not everything is ready when the driver is opened.
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
        let _ = std::io::stderr().write_all(active.finish().as_bytes()); // who doesn't listen needn't know
    }
}

/// Records from here on, or no longer, if that is for the program to say.
pub(crate) fn range(is_begin: bool, real: impl FnOnce() -> u32) -> u32 {
    match is_begin {
        _ if !is_range_enabled() => {}
        true => resume_profile(),
        false => pause_profile(),
    }
    real()
}
