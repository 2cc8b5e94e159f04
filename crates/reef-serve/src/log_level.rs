//! Level of the process's log. The code that writes the log installs the function that changes it.

use std::sync::OnceLock;
use tracing::level_filters::LevelFilter;

type Change = Box<dyn Fn(LevelFilter) + Send + Sync>;

static CHANGE: OnceLock<Change> = OnceLock::new();

/// Installs the function that changes the log's level, for clients with the right `control`. It is
/// called with each new level. Only the first installation counts; without one, clients are
/// refused.
pub fn on_log_level(change: impl Fn(LevelFilter) + Send + Sync + 'static) {
    let _ = CHANGE.set(Box::new(change));
}

/// Returns the function that changes the level, if one is installed.
pub(crate) fn change() -> Option<&'static Change> {
    CHANGE.get()
}
