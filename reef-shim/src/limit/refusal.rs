//! What a program is told, and its operator.

use crate::explain;
use crate::settings::settings;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub(crate) const OUT_OF_MEMORY: u32 = 2;
/// `CUDA_ERROR_NOT_PERMITTED`: limits that can't be read.
pub(crate) const NOT_PERMITTED: u32 = 800;

/// Says once why a limit can't be kept. A program knows an error's number alone, so this line goes
/// to stderr, as those of the loader do.
pub(super) fn say(why: &str) {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    explain::refuse::<()>(why);
    if !IS_SAID.swap(true, Relaxed) {
        let _ = writeln!(std::io::stderr(), "reef: {why}"); // nobody else could be told
    }
}

/// The code for a program whose limits are said wrongly: it isn't let in. `None`: they can be read.
pub(crate) fn of_settings() -> Option<u32> {
    settings().limits.as_ref().err().map(|why| {
        say(&format!("{why}: the device is refused"));
        NOT_PERMITTED
    })
}
