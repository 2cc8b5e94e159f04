//! The environment belongs to one test at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

static ONE: Mutex<()> = Mutex::new(());

/// Variables of the test before.
fn is_left(name: &str) -> bool {
    name.starts_with("REEF_REMOTE") || ["REEF_FAKE_RESERVE", "REEF_FAKE_BLOCKS"].contains(&name)
}

/// Waits for the other tests of this program, and forgets their variables.
pub(crate) fn wait_for_turn() -> MutexGuard<'static, ()> {
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let names: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    for name in names.iter().filter(|name| name.to_str().is_some_and(is_left)) {
        // SAFETY: each test of this program holds the lock while it runs.
        unsafe { std::env::remove_var(name) };
    }
    one
}
