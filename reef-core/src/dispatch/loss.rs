//! Loss of the device: all work ends with an error.
//!
//! Real-time work finds out by itself: its queue fails, and no other can be opened. Best-effort
//! work that is held doesn't ask the device for anything, and would wait for ever to be restored.
//! Calls that hang are handled in `watch.rs`.

use std::time::Duration;

/// Time for which a device may refuse to restore best-effort work, each time it is asked, before it
/// is abandoned.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(500);

/// Refusals of a device to restore best-effort work.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// Time of the first, unless it has answered since.
    since: Option<Duration>,
}

impl Refusals {
    /// The device has nothing to restore, or did.
    pub(super) fn note_answer(&mut self) {
        self.since = None;
    }

    /// Notes that the device refuses at `now`; returns whether it has refused for too long.
    pub(super) fn note(&mut self, now: Duration) -> bool {
        let since = *self.since.get_or_insert(now);
        now.saturating_sub(since) >= REFUSAL_TIMEOUT
    }
}

#[cfg(test)]
mod tests;
