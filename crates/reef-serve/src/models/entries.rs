//! Requests that have found a model and are not in its queue yet.
//!
//! A model that is replaced waits for them before it closes its queues.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// Interval at which a wait for them polls whether it must go on.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Requests between the lookup of a model and its queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entries(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    count: usize,
    is_closed: bool,
}

impl Entries {
    /// Counts a request until the guard is dropped; `None` once they are closed.
    pub(super) fn enter(&self) -> Option<EntryGuard> {
        let mut state = self.0.state.lock();
        if state.is_closed {
            return None;
        }
        state.count += 1;
        Some(EntryGuard(self.clone()))
    }

    /// Admits no request from now on.
    pub(super) fn close(&self) {
        self.0.state.lock().is_closed = true;
    }

    /// True if none is there, and none will come.
    pub(super) fn is_over(&self) -> bool {
        let state = self.0.state.lock();
        state.is_closed && state.count == 0
    }

    /// Waits until all of them have left, for as long as `goes_on`.
    pub(super) fn wait(&self, goes_on: impl Fn() -> bool) {
        let mut state = self.0.state.lock();
        while state.count > 0 && goes_on() {
            self.0.left.wait_for(&mut state, POLL_INTERVAL);
        }
    }
}

/// A request that has entered, until it is queued or refused.
#[derive(Debug)]
pub(crate) struct EntryGuard(Entries);

impl Drop for EntryGuard {
    fn drop(&mut self) {
        let Entries(shared) = &self.0;
        shared.state.lock().count -= 1;
        shared.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_entries_wait_for_those_that_are_there() {
        let entries = Entries::default();
        let guard = entries.enter().unwrap();
        entries.close();
        assert!(entries.enter().is_none() && !entries.is_over());
        entries.wait(|| false); // its device is lost
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| entries.wait(|| true));
            drop(guard);
            waits.join().unwrap();
        });
        assert!(entries.is_over());
    }
}
