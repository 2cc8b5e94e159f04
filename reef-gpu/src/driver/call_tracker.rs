//! Whether a call of the driver hangs.
//!
//! Some calls wait until the whole device is idle: the first launch of a function, say, or freeing. While a
//! gate is closed that is never, and if real-time work needs the call to end, the gate is never opened. Drivers don't
//! tell which calls those are, so threads note when they enter and leave one.

use std::sync::atomic::{AtomicU64, Ordering};

/// Calls of one open device, by all threads.
#[derive(Debug, Default)]
pub(crate) struct CallTracker {
    entered: AtomicU64,
    left: AtomicU64,
}

/// A call that has not returned.
#[derive(Debug)]
pub(crate) struct CallGuard<'a>(&'a CallTracker);

/// How many calls there were until now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallSnapshot {
    left: u64,
    inside: bool,
}

impl CallTracker {
    /// Hold it while the call lasts.
    pub(crate) fn enter(&self) -> CallGuard<'_> {
        self.entered.fetch_add(1, Ordering::Relaxed);
        CallGuard(self)
    }

    pub(crate) fn snapshot(&self) -> CallSnapshot {
        let left = self.left.load(Ordering::Relaxed);
        CallSnapshot { left, inside: self.entered.load(Ordering::Relaxed) != left }
    }

    /// Whether a thread is inside, as in the snapshot before, and none has left since.
    pub(crate) fn hangs_since(&self, before: CallSnapshot) -> bool {
        let now = self.snapshot();
        before.inside && now.inside && now.left == before.left
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.left.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_hangs_if_no_thread_leaves_one() {
        let calls = CallTracker::default();
        let idle = calls.snapshot();
        let call = calls.enter();
        assert!(!calls.hangs_since(idle), "it has begun since");
        let inside = calls.snapshot();
        assert!(calls.hangs_since(inside));
        drop(calls.enter());
        assert!(!calls.hangs_since(inside), "another one came through");
        drop(call);
        assert!(!calls.hangs_since(calls.snapshot()));
    }
}
