//! Units that sleep, and how they wake each other.
//!
//! Sleeper: (1) lists itself, (2) checks once more for work. Waker: (3) makes work, (4) checks
//! whether any unit sleeps. A `SeqCst` fence stands between 1 and 2 and between 3 and 4, so at
//! least one of them sees the other's store: no wake-up is lost, and a waker pays one load while
//! all are awake.
//!
//! A waker wakes [`AT_ONCE`] and each of these as many again if there is something left to do:
//! waking one takes tens of microseconds, and all in a row would take that long for each.

use crate::sync::primitives::{AtomicUsize, Mutex, Ordering, Thread, fence, park, thread};
use std::time::Duration;

/// Threads that one call wakes. Models have two sleepers, one of which wakes the other.
const AT_ONCE: usize = if cfg!(loom) { 1 } else { 2 };

/// Threads that sleep until there is something to do.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    /// Length of `threads`. Written under its lock, read by wakers.
    asleep: AtomicUsize,
    threads: Mutex<Vec<Thread>>,
}

impl Sleepers {
    /// Sleeps unless `ready` holds, until it is woken or for `most`; it may return early. Returns
    /// whether it was woken, and then must [`wake`](Self::wake) others unless there is nothing to
    /// do for them.
    pub(crate) fn sleep_unless(
        &self,
        ready: impl FnOnce() -> bool,
        most: Option<Duration>,
    ) -> bool {
        let own = thread::current();
        self.change(|threads| threads.push(own.clone())); // 1
        fence(Ordering::SeqCst);
        if !ready() {
            park(most); // 2 found nothing
        }
        self.change(|threads| {
            let place = threads.iter().position(|thread| thread.id() == own.id());
            place.map(|place| threads.swap_remove(place)).is_none()
        })
    }

    /// Wakes some. Call after storing what they look for.
    #[inline]
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst); // after 3
        if self.asleep.load(Ordering::Relaxed) > 0 {
            self.wake_slowly(); // 4
        }
    }

    /// Wakes all, for what no sleeper tells the next one of. Call after storing what they look for.
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst); // after 3
        while let Some(thread) = self.change(Vec::pop) {
            thread.unpark();
        }
    }

    #[cold]
    fn wake_slowly(&self) {
        for _ in 0..AT_ONCE {
            match self.change(Vec::pop) {
                Some(thread) => thread.unpark(),
                None => return,
            }
        }
    }

    fn change<R>(&self, f: impl FnOnce(&mut Vec<Thread>) -> R) -> R {
        let mut threads = self.threads.lock();
        let result = f(&mut threads);
        self.asleep.store(threads.len(), Ordering::Relaxed);
        result
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use std::sync::Arc; // loom's own can't be dropped in a thread that sleeps for ever

    #[derive(Default)]
    struct Scene {
        news: AtomicUsize,
        sleepers: Sleepers,
    }

    /// Sleeps until there is new work, and passes the wake-up on if it should.
    fn sleeper(scene: &Scene, passes_on: bool) {
        let news = || scene.news.load(Ordering::Relaxed) > 0;
        while !news() {
            if scene.sleepers.sleep_unless(news, None) && passes_on {
                scene.sleepers.wake();
            }
        }
    }

    /// `sleepers` threads sleep until this one announces new work. Loom reports one that sleeps for
    /// ever as a deadlock.
    fn all_wake(sleepers: usize, passes_on: bool, wake: fn(&Sleepers)) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3); // with three threads all interleavings take minutes
        model.check(move || {
            let scene = Arc::new(Scene::default());
            let threads: Vec<_> = (0..sleepers)
                .map(|_| {
                    let scene = scene.clone();
                    thread::spawn(move || sleeper(&scene, passes_on))
                })
                .collect();
            scene.news.store(1, Ordering::Relaxed);
            wake(&scene.sleepers);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn no_wake_up_is_lost() {
        all_wake(1, true, Sleepers::wake);
    }

    #[test]
    fn a_sleeper_wakes_the_next() {
        all_wake(2, true, Sleepers::wake);
    }

    #[test]
    fn all_wake_without_passing_it_on() {
        all_wake(2, false, Sleepers::wake_all);
    }

    #[test]
    #[should_panic = "deadlock"]
    fn the_last_sleeps_for_ever_if_none_passes_it_on() {
        all_wake(2, false, Sleepers::wake);
    }

    #[test]
    #[should_panic = "deadlock"]
    fn one_sleeps_for_ever_if_the_waker_has_no_fence() {
        all_wake(1, true, |sleepers| {
            if sleepers.asleep.load(Ordering::Relaxed) > 0 {
                sleepers.wake_slowly();
            }
        });
    }
}
