//! A block's view of its stop word, apart from the scratch memory it has borrowed.

use crate::kernel::{Block, RESET};
#[cfg(test)]
pub(in crate::kernels) use probe::stop_at_poll;
use std::sync::atomic::{AtomicU8, Ordering};

/// Stop word of a block. Copied out of a block, because scratch memory borrows the block.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct StopToken<'a>(&'a AtomicU8);

impl<'a> StopToken<'a> {
    pub(in crate::kernels) fn of(block: &Block<'a>) -> Self {
        Self(block.stop)
    }

    /// Like [`Block::stopped`].
    #[inline]
    pub(in crate::kernels) fn is_set(self) -> bool {
        #[cfg(test)]
        if probe::polled() {
            return true;
        }
        self.0.load(Ordering::Relaxed) == RESET
    }
}

/// Counter of a block's looks at its stop word, for tests.
#[cfg(test)]
mod probe {
    use std::cell::Cell;

    thread_local! {
        /// Number of polls until this thread's blocks see a RESET that was not written; 0 for
        /// never.
        static REMAINING: Cell<u32> = const { Cell::new(0) };
    }

    /// Runs `block`, which sees RESET from its `polls`-th poll on.
    pub(in crate::kernels) fn stop_at_poll<R>(polls: u32, block: impl FnOnce() -> R) -> R {
        REMAINING.set(polls);
        let outcome = block();
        REMAINING.set(0);
        outcome
    }

    pub(in crate::kernels) fn polled() -> bool {
        crate::kernels::tests::timing::polled();
        match REMAINING.get() {
            0 => false,
            1 => true,
            left => {
                REMAINING.set(left - 1);
                false
            }
        }
    }
}
