//! Lets whichever thread brings news do the work that the news asks for, one thread at a time.
//!
//! A real-time request would lose tens of microseconds if it had to wake a scheduler thread. So the
//! thread that submits it makes the decision itself, unless another is deciding already; then that
//! one looks again before it leaves. Nobody ever waits for the turnstile.

use crate::sync::primitives::{AtomicUsize, Mutex, Ordering};

/// Guards `T`, which only the thread that passes may touch.
#[derive(Debug, Default)]
pub(crate) struct Turnstile<T> {
    /// Visits that have not been served. Who raises it from 0 passes; the others are served by him.
    visits: AtomicUsize,
    /// Never contended but by [`Turnstile::lock`].
    state: Mutex<T>,
}

impl<T> Turnstile<T> {
    pub(crate) fn new(state: T) -> Self {
        Self { visits: AtomicUsize::new(0), state: Mutex::new(state) }
    }

    /// Runs `turn` at least once after this call began, here or on the thread that is inside.
    ///
    /// What was stored before the call is visible to that turn.
    pub(crate) fn visit(&self, mut turn: impl FnMut(&mut T)) {
        if self.visits.fetch_add(1, Ordering::AcqRel) > 0 {
            return; // the one inside sees the count when it leaves
        }
        let mut served = 1;
        loop {
            turn(&mut self.state.lock());
            let left = self.visits.fetch_sub(served, Ordering::AcqRel) - served;
            if left == 0 {
                return;
            }
            served = left;
        }
    }

    /// Changes the state outside of any turn. Waits for a turn that runs.
    pub(crate) fn lock<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.state.lock())
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::primitives::{Arc, AtomicBool, thread};

    /// Two threads each leave a message and visit; both messages are taken by some turn.
    #[test]
    fn no_visit_is_lost() {
        loom::model(|| {
            let inbox = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let turnstile = Arc::new(Turnstile::new(0));
            let visit = move |who: usize, inbox: &[AtomicBool; 2], turnstile: &Turnstile<i32>| {
                inbox[who].store(true, Ordering::Relaxed);
                turnstile.visit(|taken| {
                    for message in inbox {
                        if message.load(Ordering::Relaxed) {
                            message.store(false, Ordering::Relaxed);
                            *taken += 1;
                        }
                    }
                });
            };
            let other = thread::spawn({
                let (inbox, turnstile) = (inbox.clone(), turnstile.clone());
                move || visit(1, &inbox, &turnstile)
            });
            visit(0, &inbox, &turnstile);
            other.join().unwrap();
            assert_eq!(turnstile.lock(|taken| *taken), 2);
        });
    }
}
