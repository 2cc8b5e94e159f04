//! The primitives that protocols are built of, so that loom can take their place.
//!
//! With `--cfg loom` every one is loom's, which then tries all interleavings.

#[cfg(not(loom))]
mod real {
    pub(crate) use parking_lot::MutexGuard;
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use std::thread;
    use std::time::Duration;

    /// A mutex without poison.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(parking_lot::Mutex::new(value))
        }

        #[inline]
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock()
        }

        /// As [`lock`](Self::lock), if no other thread has it.
        #[inline]
        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock()
        }

        /// As [`lock`](Self::lock), for no longer than `time`.
        #[inline]
        pub(crate) fn lock_for(&self, time: Duration) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock_for(time)
        }
    }

    /// A condition variable; [`wait`](Self::wait) takes the guard by value, as loom's does.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        /// As [`wait`](Self::wait), for no longer than `time`.
        pub(crate) fn wait_for<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            time: Duration,
        ) -> MutexGuard<'a, T> {
            self.0.wait_for(&mut guard, time);
            guard
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// Memory that one thread at a time reads or writes.
    #[derive(Debug)]
    pub(crate) struct Cell<T>(std::cell::UnsafeCell<T>);

    impl<T> Cell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        #[inline]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(loom)]
mod model {
    #[allow(clippy::unsafe_removed_from_name)] // its methods have the names of our own
    pub(crate) use loom::cell::UnsafeCell as Cell;
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence,
    };

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }

        /// Models have no time: another thread goes on before this one checks again.
        pub(crate) fn lock_for(&self, _: std::time::Duration) -> Option<MutexGuard<'_, T>> {
            let guard = self.try_lock();
            if guard.is_none() {
                thread::yield_now();
            }
            guard
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap()
        }

        /// Models have no time: nothing may rely on it.
        pub(crate) fn wait_for<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _: std::time::Duration,
        ) -> MutexGuard<'a, T> {
            self.wait(guard)
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// Threads, whose parking is our own: loom's forgets that a thread was unparked when that waits
    /// for a lock next.
    pub(crate) mod thread {
        use super::{Condvar, Mutex};
        pub(crate) use loom::thread::{Builder, JoinHandle, spawn, yield_now};
        use std::cell::RefCell;
        use std::sync::Arc;

        #[derive(Debug, Clone, Default)]
        pub(crate) struct Thread(Arc<(Mutex<bool>, Condvar)>);

        loom::thread_local! {
            static CURRENT: RefCell<Option<Thread>> = RefCell::default();
        }

        impl Thread {
            /// This thread is the one of the handle.
            pub(crate) fn begin(&self) {
                CURRENT.with(|current| current.replace(Some(self.clone())));
            }

            pub(crate) fn unpark(&self) {
                *self.0.0.lock() = true;
                self.0.1.notify_all();
            }

            pub(crate) fn id(&self) -> usize {
                Arc::as_ptr(&self.0).addr()
            }
        }

        /// # Panics
        ///
        /// If it has not [begun](Thread::begin).
        pub(crate) fn current() -> Thread {
            CURRENT.with(|current| current.borrow().clone()).expect("a thread with a handle")
        }

        pub(crate) fn park() {
            let Thread(parking) = current();
            let mut unparked = parking.0.lock();
            while !*unparked {
                unparked = parking.1.wait(unparked);
            }
            *unparked = false;
        }

        /// Models have no time: another thread goes on before this one checks again.
        pub(crate) fn park_timeout(_: std::time::Duration) {
            yield_now();
        }
    }
}

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;
