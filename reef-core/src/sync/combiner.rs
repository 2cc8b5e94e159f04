//! Lets whichever thread brings news do the work that the news asks for, one thread at a time.
//!
//! A real-time request would lose tens of microseconds if it had to wake a scheduler thread. So the
//! thread that submits it makes the decision itself, unless another is deciding already; then that
//! one makes another pass before it leaves. (*Flat combining*: Hendler, Incze, Shavit and Tzafrir,
//! SPAA 2010.)
//!
//! News that keep coming must not keep a thread inside: after [`MAX_PASSES`] it leaves the *baton*,
//! which the next visitor takes, or the thread that is woken for it. No thread waits for the
//! combiner.
//!
//! | `visits` | `baton` | |
//! |---|---|---|
//! | 0 | down | no thread is inside |
//! | > 0 | down | one is; it makes another pass if visits came since its last began |
//! | > 0 | up | none is, and who lowers it is |

use crate::sync::primitives::{AtomicBool, AtomicUsize, Mutex, Ordering, fence};

/// Passes that a visit makes before others have to, its own among them.
///
/// More than one, because who takes over may have to wake up first, and what waits is real-time
/// work.
pub(crate) const MAX_PASSES: usize = 4;

/// Guards `T`, which only the thread that makes a pass may touch.
#[derive(Debug, Default)]
pub(crate) struct Combiner<T> {
    /// Visits that no pass has answered. Who raises it from 0 combines; the others are answered by
    /// that thread.
    visits: AtomicUsize,
    /// Raised by the thread that leaves with visits unanswered, lowered by who goes on.
    baton: AtomicBool,
    /// Never contended but by [`Combiner::lock`].
    state: Mutex<T>,
}

impl<T> Combiner<T> {
    pub(crate) fn new(state: T) -> Self {
        Self {
            visits: AtomicUsize::new(0),
            baton: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    /// Runs `pass` at least once after this call began: here, on the thread that is inside, or on
    /// one that takes the baton. Here it runs `most` times at most.
    ///
    /// What was stored before the call is visible to that pass. A pass that returns `true` has
    /// found news of its own, which another has to look at. `hand_over` wakes a thread that will
    /// combine; `false` means that there is none, and then this thread goes on.
    pub(crate) fn combine(
        &self,
        most: usize,
        mut pass: impl FnMut(&mut T) -> bool,
        hand_over: impl Fn() -> bool,
    ) {
        let others = self.visits.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst); // after the visit, before the look: see `leave`
        if others > 0 && !self.take_baton() {
            return; // the one inside sees the count before it leaves
        }
        loop {
            for _ in 0..most {
                // Stores before these visits are visible from here on.
                let seen = self.visits.load(Ordering::Acquire);
                let more = pass(&mut self.state.lock());
                let answered = seen - usize::from(more);
                if self.visits.fetch_sub(answered, Ordering::AcqRel) == answered {
                    return;
                }
            }
            if self.leave(&hand_over) {
                return;
            }
        }
    }

    /// Leaves the rest to others. `false`: there are none, and the baton is ours again.
    #[cold]
    fn leave(&self, hand_over: impl Fn() -> bool) -> bool {
        self.baton.store(true, Ordering::Release);
        // Whoever ends the thread that takes over visits after that: either `hand_over` knows, or
        // that visit finds the baton.
        fence(Ordering::SeqCst);
        hand_over() || !self.take_baton()
    }

    fn take_baton(&self) -> bool {
        self.baton.load(Ordering::Relaxed)
            && self.baton.compare_exchange(true, false, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Changes the state outside of any pass. Waits for a pass that runs.
    pub(crate) fn lock<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.state.lock())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// News that each pass itself brings, as a service thread in a tight loop does.
    #[test]
    fn news_that_keep_coming_do_not_keep_a_visit() {
        let combiner = Combiner::new(0);
        let visit_again = || combiner.combine(1, |_| unreachable!("one is inside"), || true);
        let pass = |passes: &mut i32| {
            *passes += 1;
            visit_again();
            false
        };
        combiner.combine(3, pass, || true);
        assert_eq!(combiner.lock(|passes| *passes), 3);
        let last = |passes: &mut i32| {
            *passes += 10;
            false
        };
        combiner.combine(3, last, || unreachable!("all is answered"));
        assert_eq!(combiner.lock(|passes| *passes), 13, "the next visit took the baton");
    }

    #[test]
    fn a_pass_that_finds_more_is_followed_by_another() {
        let combiner = Combiner::new(0);
        let pass = |passes: &mut i32| {
            *passes += 1;
            *passes < 3
        };
        combiner.combine(9, pass, || unreachable!("it made all passes"));
        assert_eq!(combiner.lock(|passes| *passes), 3);
    }

    /// Without a thread to take over, it stays until all is answered.
    #[test]
    fn with_no_thread_to_take_over_a_visit_answers_all() {
        let combiner = Combiner::new(0);
        let pass = |passes: &mut i32| {
            *passes += 1;
            if *passes < 10 {
                combiner.combine(1, |_| unreachable!("one is inside"), || true);
            }
            false
        };
        combiner.combine(3, pass, || false);
        assert_eq!(combiner.lock(|passes| *passes), 10);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::primitives::{Arc, thread};

    const SENDERS: usize = 2;

    /// Messages of some senders, and what the passes took of them.
    #[derive(Default)]
    struct Scene {
        inbox: [AtomicUsize; SENDERS],
        combiner: Combiner<[usize; SENDERS]>,
        handed_over: AtomicUsize,
        closing: AtomicBool,
    }

    impl Scene {
        /// Each pass takes what is in the inbox. Returns how many passes this visit made.
        fn visit(&self, most: usize) -> usize {
            let mut passes = 0;
            let pass = |taken: &mut [usize; SENDERS]| {
                passes += 1;
                for (message, taken) in self.inbox.iter().zip(taken) {
                    *taken = (*taken).max(message.load(Ordering::Relaxed));
                }
                false
            };
            self.combiner.combine(most, pass, || {
                if self.closing.load(Ordering::Relaxed) {
                    return false;
                }
                self.handed_over.fetch_add(1, Ordering::Release);
                true
            });
            passes
        }

        fn send(&self, who: usize, message: usize, most: usize) -> usize {
            self.inbox[who].store(message, Ordering::Relaxed);
            self.visit(most)
        }

        fn taken(&self) -> [usize; SENDERS] {
            self.combiner.lock(|taken| *taken)
        }
    }

    /// A client visits once; another thread visits in a loop, as the service thread does while it
    /// polls. However they interleave, the client makes `most` passes or fewer and all messages are
    /// taken.
    fn a_client_beside_a_polling_thread(most: usize) {
        loom::model(move || {
            let scene = Arc::new(Scene::default());
            let polling = thread::spawn({
                let scene = scene.clone();
                move || {
                    (1..=2).for_each(|message| {
                        scene.send(1, message, usize::MAX);
                    })
                }
            });
            let passes = scene.send(0, 1, most);
            polling.join().unwrap();
            assert!(passes <= 1, "{passes} passes in one visit");
            if scene.handed_over.load(Ordering::Acquire) > 0 {
                scene.visit(usize::MAX); // the thread that is woken
            }
            assert_eq!(scene.taken(), [1, 2]);
        });
    }

    #[test]
    fn a_visit_is_bounded_and_none_is_lost() {
        a_client_beside_a_polling_thread(1);
    }

    /// Without the bound the polling thread keeps the client inside: the model is able to fail.
    #[test]
    #[should_panic = "passes in one visit"]
    fn without_a_bound_news_keep_a_visit() {
        a_client_beside_a_polling_thread(usize::MAX);
    }

    /// The thread that takes over ends, as a dispatcher does that is dropped: it says so, then
    /// visits once more. No message is left.
    #[test]
    fn the_last_visit_of_the_one_that_takes_over_leaves_none() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3); // three threads: all interleavings take minutes
        model.check(|| {
            let scene = Arc::new(Scene::default());
            let clients: Vec<_> = (0..SENDERS)
                .map(|who| {
                    let scene = scene.clone();
                    thread::spawn(move || {
                        scene.send(who, 1, 1);
                    })
                })
                .collect();
            scene.closing.store(true, Ordering::Relaxed);
            scene.visit(usize::MAX);
            clients.into_iter().for_each(|client| client.join().unwrap());
            assert_eq!(scene.taken(), [1, 1]);
        });
    }
}
