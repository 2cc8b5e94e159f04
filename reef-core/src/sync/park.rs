//! Sleep of one thread until another wakes it, and waits of several threads for progress.
//!
//! Both use the same four steps. Sleeper: (1) set the flag that says it sleeps, (2) check its
//! condition once more. Waker: (3) make the condition true, (4) check whether the sleeper sleeps. A
//! `SeqCst` fence stands between 1 and 2 and between 3 and 4, so at least one of them sees the
//! other's store: no wake-up is lost, and a waker pays one load while no thread sleeps. The models
//! below show what happens without.

use crate::sync::primitives::{
    AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence,
};
use std::time::Instant;

/// Flag that says whether one thread sleeps.
#[derive(Debug, Default)]
pub(crate) struct Parker {
    /// Written by the sleeping thread, read by wakers.
    asleep: AtomicBool,
}

impl Parker {
    /// Sleeps by `park` unless `ready` holds; what made it hold may have come since the last poll.
    pub(crate) fn sleep_unless(&self, ready: impl FnOnce() -> bool, park: impl FnOnce()) {
        self.asleep.store(true, Ordering::Relaxed); // 1
        fence(Ordering::SeqCst);
        if !ready() {
            park(); // 2 found nothing
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Wakes the thread by `unpark` if it sleeps. Call after storing what it looks for.
    #[inline]
    pub(crate) fn wake(&self, unpark: impl FnOnce()) {
        fence(Ordering::SeqCst); // after 3
        self.wake_if_asleep(unpark);
    }

    #[inline]
    fn wake_if_asleep(&self, unpark: impl FnOnce()) {
        if self.asleep.load(Ordering::Relaxed) {
            unpark(); // 4
        }
    }
}

/// Lets threads wait until a condition that others make true.
#[derive(Debug, Default)]
pub(crate) struct EventCount {
    /// Written by waiting threads, read by notifiers.
    count: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

impl EventCount {
    /// Blocks until `ready` holds.
    pub(crate) fn wait_until(&self, ready: impl Fn() -> bool) {
        self.wait(|guard| {
            let mut guard = guard;
            while !ready() {
                guard = self.changed.wait(guard); // 2
            }
        });
    }

    /// Blocks until `ready` holds, but no longer than until `end`. Returns whether it holds.
    pub(crate) fn wait_until_or(&self, end: Instant, ready: impl Fn() -> bool) -> bool {
        self.wait(|guard| {
            let mut guard = guard;
            while !ready() {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return false;
                }
                guard = self.changed.wait_for(guard, left); // 2
            }
            true
        })
    }

    fn wait<R>(&self, check: impl FnOnce(MutexGuard<'_, ()>) -> R) -> R {
        self.count.fetch_add(1, Ordering::Relaxed); // 1
        fence(Ordering::SeqCst);
        let result = check(self.lock.lock());
        self.count.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// Lets waiters check again. Call after storing what they look for.
    #[inline]
    pub(crate) fn notify(&self) {
        fence(Ordering::SeqCst); // after 3
        if self.count.load(Ordering::Relaxed) > 0 {
            self.notify_slowly(); // 4
        }
    }

    /// Returns whether a thread waits.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn has_waiters(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Passing through the lock orders this after a waiter's look.
    #[cold]
    fn notify_slowly(&self) {
        drop(self.lock.lock());
        self.changed.notify_all();
    }
}

/// Looks for up to `time`, and keeps the core; returns whether `over` came to hold.
pub(crate) fn spin_until(time: std::time::Duration, over: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        for _ in 0..32 {
            if over() {
                return true;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() >= time {
            return over();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    const TEST_TIMEOUT: Duration = Duration::from_secs(60);

    #[test]
    fn timed_wait_returns_whether_the_condition_holds() {
        let count = EventCount::default();
        let soon = Instant::now() + Duration::from_millis(2);
        assert!(!count.wait_until_or(soon, || false), "it ended before");
        assert!(Instant::now() >= soon, "and not earlier than asked for");
        assert!(count.wait_until_or(soon, || true), "what holds already is not late");
    }

    #[test]
    fn spinning_ends_when_the_time_is_over_or_the_condition_holds() {
        assert!(!spin_until(Duration::from_millis(1), || false));
        let checks = std::cell::Cell::new(0);
        let at_the_hundredth = || {
            checks.set(checks.get() + 1);
            checks.get() == 100
        };
        assert!(spin_until(TEST_TIMEOUT, at_the_hundredth), "{} looks", checks.get());
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::primitives::{Arc, thread};

    #[test]
    fn no_wake_up_is_lost() {
        loom::model(|| {
            let shared = Arc::new((AtomicUsize::new(0), Parker::default()));
            let handle = thread::Thread::default();
            let sleeper = thread::spawn({
                let (shared, handle) = (shared.clone(), handle.clone());
                move || {
                    handle.begin();
                    while shared.0.load(Ordering::Acquire) < 2 {
                        let seen = shared.0.load(Ordering::Acquire);
                        let ready = || shared.0.load(Ordering::Acquire) != seen || seen >= 2;
                        shared.1.sleep_unless(ready, thread::park);
                    }
                }
            });
            for value in 1..=2 {
                shared.0.store(value, Ordering::Release);
                shared.1.wake(|| handle.unpark());
            }
            sleeper.join().unwrap(); // loom reports a deadlock if the sleeper sleeps for ever
        });
    }

    #[test]
    fn every_waiter_sees_the_change() {
        loom::model(|| {
            let shared = Arc::new((AtomicBool::new(false), EventCount::default()));
            let waiter = thread::spawn({
                let shared = shared.clone();
                move || shared.1.wait_until(|| shared.0.load(Ordering::Acquire))
            });
            shared.0.store(true, Ordering::Release);
            shared.1.notify();
            waiter.join().unwrap();
        });
    }

    /// A sleeper looks for a store, after which this thread wakes it by `wake`. Loom reports a
    /// sleeper that sleeps for ever as a deadlock.
    fn sleeper_of_one_store(wake: fn(&Parker, &thread::Thread)) {
        use std::sync::Arc; // loom's own can't be dropped in a thread that sleeps for ever

        loom::model(move || {
            let shared = Arc::new((AtomicBool::new(false), Parker::default()));
            let handle = thread::Thread::default();
            let sleeper = thread::spawn({
                let (shared, handle) = (shared.clone(), handle.clone());
                move || {
                    handle.begin();
                    shared.1.sleep_unless(|| shared.0.load(Ordering::Acquire), thread::park);
                }
            });
            shared.0.store(true, Ordering::Release);
            wake(&shared.1, &handle);
            sleeper.join().unwrap();
        });
    }

    #[test]
    fn sleeper_wakes_after_one_store() {
        sleeper_of_one_store(|parker, handle| parker.wake(|| handle.unpark()));
    }

    /// Neither sees the other's store then: the model is able to fail.
    #[test]
    #[should_panic = "deadlock"]
    fn sleeper_sleeps_for_ever_without_the_wakers_fence() {
        sleeper_of_one_store(|parker, handle| parker.wake_if_asleep(|| handle.unpark()));
    }
}
