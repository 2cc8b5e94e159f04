//! A position that one side moves, and whether the other side sleeps until it moves.
//!
//! The side that moves it must not call the kernel for a peer that is awake, and the other side
//! must not sleep through a move:
//!
//! | mover | sleeper |
//! |---|---|
//! | 1. moves the position | 3. notes that it sleeps |
//! | fence | fence |
//! | 2. wakes the sleeper if it sleeps | 4. reads the position again, and sleeps if it is unchanged |
//!
//! The fences ensure that step 2 sees step 3, or step 4 sees step 1.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// The position, and the sleeper's note, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Cursor {
    at: Line,
    /// 0 or 1.
    sleeps: Line,
}

#[derive(Debug, Default)]
#[cfg_attr(not(loom), repr(C, align(64)))]
struct Line(AtomicU32);

impl Cursor {
    /// Returns the position. What the mover wrote before it is seen as well.
    pub(crate) fn get(&self) -> u32 {
        self.at.0.load(Ordering::Acquire)
    }

    /// Moves the position. Returns true if the sleeper must be woken.
    #[must_use]
    pub(crate) fn set(&self, at: u32) -> bool {
        self.at.0.store(at, Ordering::Release);
        fence(Ordering::SeqCst); // between steps 1 and 2
        self.sleeps.0.load(Ordering::Relaxed) != 0
    }

    /// Sleeps by `sleep` if the position is `seen` still, and notes meanwhile that it does. Returns
    /// the result of `sleep` if that was called.
    pub(crate) fn sleep_at<R>(&self, seen: u32, sleep: impl FnOnce() -> R) -> Option<R> {
        self.sleeps.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst); // between steps 3 and 4
        let slept = (self.get() == seen).then(sleep);
        self.sleeps.0.store(0, Ordering::Relaxed);
        slept
    }
}
