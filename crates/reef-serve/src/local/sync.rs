//! Primitives of the channel, replaced by loom's in models.

#[cfg(not(loom))]
mod real {
    pub(crate) use std::sync::atomic::{Ordering, fence};

    use rustix::thread::futex;
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    /// A number that threads of several processes can sleep on.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub(crate) struct Word(AtomicU32);

    impl Word {
        pub(crate) fn load(&self, order: Ordering) -> u32 {
            self.0.load(order)
        }

        pub(crate) fn store(&self, value: u32, order: Ordering) {
            self.0.store(value, order);
        }

        /// Sleeps while it holds `seen`, for at most `time`; may return early. Returns whether it
        /// was woken.
        pub(crate) fn sleep(&self, seen: u32, time: Duration) -> bool {
            let time = time.try_into().ok();
            futex::wait(&self.0, futex::Flags::empty(), seen, time.as_ref()).is_ok()
        }

        /// Wakes all sleeping threads.
        pub(crate) fn wake(&self) {
            let _ = futex::wake(&self.0, futex::Flags::empty(), i32::MAX as u32); // none is fine
        }
    }
}

#[cfg(loom)]
mod model {
    pub(crate) use loom::sync::atomic::{Ordering, fence};

    use loom::sync::atomic::AtomicU32;
    use loom::sync::{Condvar, Mutex};
    use std::time::Duration;

    /// A model of the word with a lock and a condition, like the kernel's.
    #[derive(Debug)]
    pub(crate) struct Word {
        value: AtomicU32,
        lock: Mutex<()>,
        wakes: Condvar,
    }

    impl Default for Word {
        fn default() -> Self {
            Self { value: AtomicU32::new(0), lock: Mutex::new(()), wakes: Condvar::new() }
        }
    }

    impl Word {
        pub(crate) fn load(&self, order: Ordering) -> u32 {
            self.value.load(order)
        }

        pub(crate) fn store(&self, value: u32, order: Ordering) {
            self.value.store(value, order);
        }

        /// Models have no time: a sleep without a wake never ends.
        pub(crate) fn sleep(&self, seen: u32, _: Duration) -> bool {
            let guard = self.lock.lock().unwrap();
            let sleeps = self.value.load(Ordering::SeqCst) == seen;
            if sleeps {
                drop(self.wakes.wait(guard).unwrap());
            }
            sleeps
        }

        pub(crate) fn wake(&self) {
            let _guard = self.lock.lock().unwrap();
            self.wakes.notify_all();
        }
    }
}

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;
