//! Rest of the agent, and what ends it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::Thread;

static AGENT: OnceLock<Option<Thread>> = OnceLock::new();
/// Cleared before the agent checks whether groups are left, and set by the launch of one.
static IS_AWAKE: AtomicBool = AtomicBool::new(false);

/// Starts the agent, once.
pub(super) fn start(run: impl FnOnce() -> Option<Thread>) {
    AGENT.get_or_init(run);
}

/// Has the agent look, because there is a group.
pub(super) fn wake() {
    if !IS_AWAKE.swap(true, SeqCst)
        && let Some(thread) = AGENT.get().and_then(Option::as_ref)
    {
        thread.unpark();
    }
}

/// Notes that the agent looks from now on.
pub(super) fn begin() {
    IS_AWAKE.store(false, SeqCst);
}

/// Rests until there is a group, unless one came since [`begin`].
pub(super) fn rest() {
    if !IS_AWAKE.load(SeqCst) {
        std::thread::park();
    }
}
