//! The primitives that protocols are built of, so that loom can take their place.
//!
//! With `--cfg loom` every one is loom's, which then tries all interleavings.

#[cfg(not(loom))]
mod real {
    pub(crate) use crossbeam_queue::SegQueue as Inbox;
    pub(crate) use parking_lot::{Mutex, Mutex as TryMutex, MutexGuard as TryMutexGuard};
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use std::thread::{self, Thread};
    use std::time::Duration;

    /// Sleeps until this thread is unparked, or for `most`.
    pub(crate) fn park(most: Option<Duration>) {
        most.map_or_else(thread::park, thread::park_timeout);
    }
}

#[cfg(loom)]
mod model {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use loom::thread::{self, Thread};
    use std::collections::VecDeque;
    use std::ops::{Deref, DerefMut};
    use std::time::Duration;

    /// Models have no time: nothing may rely on it.
    pub(crate) fn park(_: Option<Duration>) {
        thread::park();
    }

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }

    /// A lock that may be tried. A failed try synchronises with nothing, like the real one; loom's
    /// own would synchronise.
    #[derive(Debug, Default)]
    pub(crate) struct TryMutex<T> {
        locked: AtomicUsize,
        state: loom::sync::Mutex<T>,
    }

    pub(crate) struct TryMutexGuard<'a, T> {
        locked: &'a AtomicUsize,
        state: loom::sync::MutexGuard<'a, T>,
    }

    impl<T> TryMutex<T> {
        pub(crate) fn new(state: T) -> Self {
            Self { locked: AtomicUsize::new(0), state: loom::sync::Mutex::new(state) }
        }

        pub(crate) fn try_lock(&self) -> Option<TryMutexGuard<'_, T>> {
            let (to, old) = (Ordering::Acquire, Ordering::Relaxed);
            self.locked.compare_exchange(0, 1, to, old).ok()?;
            Some(TryMutexGuard { locked: &self.locked, state: self.state.lock().unwrap() })
        }

        pub(crate) fn lock(&self) -> TryMutexGuard<'_, T> {
            let state = self.state.lock().unwrap();
            self.locked.swap(1, Ordering::Acquire);
            TryMutexGuard { locked: &self.locked, state }
        }
    }

    impl<T> Deref for TryMutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.state
        }
    }

    impl<T> DerefMut for TryMutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.state
        }
    }

    impl<T> Drop for TryMutexGuard<'_, T> {
        fn drop(&mut self) {
            self.locked.store(0, Ordering::Release);
        }
    }

    /// A queue that says no more than it must of what others have pushed.
    #[derive(Debug)]
    pub(crate) struct Inbox<M> {
        len: AtomicUsize,
        messages: loom::sync::Mutex<VecDeque<M>>,
    }

    impl<M> Default for Inbox<M> {
        fn default() -> Self {
            Self { len: AtomicUsize::new(0), messages: loom::sync::Mutex::new(VecDeque::new()) }
        }
    }

    impl<M> Inbox<M> {
        pub(crate) fn push(&self, message: M) {
            let mut messages = self.messages.lock().unwrap();
            messages.push_back(message);
            self.len.store(messages.len(), Ordering::Release);
        }

        pub(crate) fn pop(&self) -> Option<M> {
            if self.is_empty() {
                return None;
            }
            let mut messages = self.messages.lock().unwrap();
            let message = messages.pop_front();
            self.len.store(messages.len(), Ordering::Release);
            message
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.len.load(Ordering::Acquire) == 0
        }
    }
}

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;
