//! Refusals: codes for the program, and a line for its operator.

use crate::explain;
use crate::settings::settings;
use reef_cuda_abi::codes::NOT_PERMITTED;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Prints once why a limit can't be kept. A program gets only an error's number, so this line goes
/// to stderr, like those of the loader.
pub(crate) fn say(why: &str) {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    explain::refuse::<()>(why);
    if !IS_SAID.swap(true, Relaxed) {
        let _ = writeln!(std::io::stderr(), "reef: {why}"); // a failure can't be reported
    }
}

/// Returns the code for a program with invalid limits, which may not use the device. `None`: the
/// limits are valid.
pub(crate) fn of_settings() -> Option<u32> {
    settings().limits.as_ref().err().map(|why| {
        say(&format!("{why}: the device is refused"));
        NOT_PERMITTED
    })
}
