//! Lets whichever thread brings news do the work that the news asks for, one thread at a time.
//!
//! A real-time request would lose tens of microseconds if it had to wake a scheduler thread. So the
//! thread that submits it makes the decision itself, unless another is deciding already; then that
//! one makes another pass before it leaves. No thread waits for the combiner. (*Flat combining*: Hendler,
//! Incze, Shavit and Tzafrir, SPAA 2010.)

use crate::sync::primitives::{AtomicUsize, Mutex, Ordering};

/// Guards `T`, which only the thread that makes a pass may touch.
#[derive(Debug, Default)]
pub(crate) struct Combiner<T> {
    /// Visits that no pass has answered. Who raises it from 0 combines; the others are answered by that thread.
    visits: AtomicUsize,
    /// Never contended but by [`Combiner::lock`].
    state: Mutex<T>,
}

impl<T> Combiner<T> {
    pub(crate) fn new(state: T) -> Self {
        Self { visits: AtomicUsize::new(0), state: Mutex::new(state) }
    }

    /// Runs `pass` at least once after this call began, here or on the thread that is inside.
    ///
    /// What was stored before the call is visible to that pass.
    pub(crate) fn combine(&self, mut pass: impl FnMut(&mut T)) {
        if self.visits.fetch_add(1, Ordering::AcqRel) > 0 {
            return; // the one inside sees the count when it leaves
        }
        let mut served = 1;
        loop {
            pass(&mut self.state.lock());
            let left = self.visits.fetch_sub(served, Ordering::AcqRel) - served;
            if left == 0 {
                return;
            }
            served = left;
        }
    }

    /// Changes the state outside of any pass. Waits for a pass that runs.
    pub(crate) fn lock<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.state.lock())
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::primitives::{Arc, AtomicBool, thread};

    /// Two threads each leave a message and visit; both messages are taken by some pass.
    #[test]
    fn no_visit_is_lost() {
        loom::model(|| {
            let inbox = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let combiner = Arc::new(Combiner::new(0));
            let visit = move |who: usize, inbox: &[AtomicBool; 2], combiner: &Combiner<i32>| {
                inbox[who].store(true, Ordering::Relaxed);
                combiner.combine(|taken| {
                    for message in inbox {
                        if message.load(Ordering::Relaxed) {
                            message.store(false, Ordering::Relaxed);
                            *taken += 1;
                        }
                    }
                });
            };
            let other = thread::spawn({
                let (inbox, combiner) = (inbox.clone(), combiner.clone());
                move || visit(1, &inbox, &combiner)
            });
            visit(0, &inbox, &combiner);
            other.join().unwrap();
            assert_eq!(combiner.lock(|taken| *taken), 2);
        });
    }
}
