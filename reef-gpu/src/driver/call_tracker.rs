//! Whether a call of the driver hangs.
//!
//! Some calls wait until the whole device is idle: the first launch of a function, say, or freeing. While a
//! gate is closed that is never, and if the call is what real-time work needs to end, nobody opens the
//! gate. Drivers don't tell which calls those are, so threads note when they enter and leave one.

use std::sync::atomic::{AtomicU64, Ordering};

/// Calls of one open device, by all threads.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    entered: AtomicU64,
    left: AtomicU64,
}

/// A call that has not returned.
#[derive(Debug)]
pub(crate) struct Call<'a>(&'a Calls);

/// How many calls there were until now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    left: u64,
    inside: bool,
}

impl Calls {
    /// Hold it while the call lasts.
    pub(crate) fn enter(&self) -> Call<'_> {
        self.entered.fetch_add(1, Ordering::Relaxed);
        Call(self)
    }

    pub(crate) fn look(&self) -> Seen {
        let left = self.left.load(Ordering::Relaxed);
        Seen { left, inside: self.entered.load(Ordering::Relaxed) != left }
    }

    /// Whether somebody is inside, as at the look before, and nobody has left since.
    pub(crate) fn hangs_since(&self, before: Seen) -> bool {
        let now = self.look();
        before.inside && now.inside && now.left == before.left
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.left.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_hangs_if_nobody_leaves_one() {
        let calls = Calls::default();
        let idle = calls.look();
        let call = calls.enter();
        assert!(!calls.hangs_since(idle), "it has begun since");
        let inside = calls.look();
        assert!(calls.hangs_since(inside));
        drop(calls.enter());
        assert!(!calls.hangs_since(inside), "another one came through");
        drop(call);
        assert!(!calls.hangs_since(calls.look()));
    }
}
