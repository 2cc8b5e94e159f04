//! The level of the log, which is the process's: whoever writes the log says how it changes.

use std::sync::OnceLock;
use tracing::level_filters::LevelFilter;

type Change = Box<dyn Fn(LevelFilter) + Send + Sync>;

static CHANGE: OnceLock<Change> = OnceLock::new();

/// Lets clients with the right `control` choose the log's level: `change` is called with each new
/// one. The first call counts. Without one they are refused.
pub fn on_log_level(change: impl Fn(LevelFilter) + Send + Sync + 'static) {
    let _ = CHANGE.set(Box::new(change));
}

/// What changes the level, if anything does.
pub(crate) fn change() -> Option<&'static Change> {
    CHANGE.get()
}
