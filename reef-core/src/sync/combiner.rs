//! Lets the thread that causes work do it, one thread at a time.
//!
//! A real-time request would lose tens of microseconds if it had to wake a scheduler thread. So the
//! thread that submits it makes the decision itself, unless another is deciding already; then that
//! one makes another pass before it leaves. (*Flat combining*: Hendler, Incze, Shavit and Tzafrir,
//! SPAA 2010.)
//!
//! Work that keeps coming must not keep a thread inside: after [`MAX_PASSES`] it leaves the
//! *baton*, which the next visitor takes, or the thread that is woken for it. No thread waits for
//! the combiner.
//!
//! A thread that hangs inside keeps the state. Visitors leave their visits to it, and threads that
//! want the state itself wait for as long as they say.
//!
//! | `visits` | `baton` | |
//! |---|---|---|
//! | 0 | down | no thread is inside |
//! | > 0 | down | one is; it makes another pass if visits came since its last began |
//! | > 0 | up | none is; the thread that lowers the baton is next |

use crate::sync::primitives::{AtomicBool, AtomicUsize, Mutex, Ordering, fence};
use crate::sync::turns::Turns;
use std::time::Duration;

/// Upper bound of the passes of one visit, its own among them; other threads make the rest.
///
/// More than one, because the thread that takes over may have to wake up first, and real-time work
/// waits.
pub(crate) const MAX_PASSES: usize = 4;

/// Time for which a thread waits for the state before it checks again whether it should.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// Time for which a visitor waits for a thread that has the state outside of a pass, before it
/// leaves its visit to others.
const PASS_LOCK_TIMEOUT: Duration = Duration::from_millis(200);

/// Guards `T`, which only the thread that makes a pass may touch.
#[derive(Debug, Default)]
pub(crate) struct Combiner<T> {
    /// Visits that no pass has answered. The thread that raises it from 0 combines, and answers the
    /// others.
    visits: AtomicUsize,
    /// Raised by the thread that leaves with visits unanswered, lowered by the thread that goes on.
    baton: AtomicBool,
    /// Never contended but by [`Combiner::lock`].
    state: Mutex<T>,
    /// Turns of the threads that have the state.
    turns: Turns,
}

impl<T> Combiner<T> {
    pub(crate) fn new(state: T) -> Self {
        Self {
            visits: AtomicUsize::new(0),
            baton: AtomicBool::new(false),
            state: Mutex::new(state),
            turns: Turns::default(),
        }
    }

    /// Returns the turns of the threads that have the state.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Runs `pass` at least once after this call began: here, on the thread that is inside, or on
    /// one that takes the baton. Here it runs at most `max_passes` times.
    ///
    /// The pass sees all that was stored before the call. A pass that returns `true` has caused
    /// more work itself, which another pass has to do. `hand_over` wakes a thread that will
    /// combine; `false` means that there is none, and then this thread goes on.
    pub(crate) fn combine(
        &self,
        max_passes: usize,
        mut pass: impl FnMut(&mut T) -> bool,
        hand_over: impl Fn() -> bool,
    ) {
        let others = self.visits.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst); // after the visit, before the poll: see `leave`
        if others > 0 && !self.take_baton() {
            return; // the one inside sees the count before it leaves
        }
        loop {
            for _ in 0..max_passes {
                // Stores before these visits are visible from here on.
                let seen = self.visits.load(Ordering::Acquire);
                let Some(more) = self.try_lock(PASS_LOCK_TIMEOUT, &mut pass) else { break };
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
        // A thread that ends the one that takes over visits after that: either `hand_over` knows,
        // or that visit finds the baton.
        fence(Ordering::SeqCst);
        hand_over() || !self.take_baton()
    }

    fn take_baton(&self) -> bool {
        self.baton.load(Ordering::Relaxed)
            && self.baton.compare_exchange(true, false, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Changes the state outside of any pass. Waits for a pass that runs, for as long as `waits`
    /// holds: `None` if it doesn't any more.
    pub(crate) fn lock<R>(
        &self,
        waits: impl Fn() -> bool,
        f: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let mut f = Some(f);
        loop {
            let result = self.try_lock(LOCK_INTERVAL, |state| f.take().map(|f| f(state)));
            if result.is_some() || !waits() {
                return result.flatten();
            }
        }
    }

    fn try_lock<R>(&self, time: Duration, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut state = self.state.lock_for(time)?;
        let _turn = self.turns.begin();
        Some(f(&mut state))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn taken(combiner: &Combiner<i32>) -> i32 {
        combiner.lock(|| true, |passes| *passes).expect("no thread is inside")
    }

    /// A thread that is inside for as long as a test lets it be.
    #[test]
    fn state_is_waited_for_while_asked_for() {
        let combiner = Combiner::new(0);
        let inside = |passes: &mut i32| {
            assert!(combiner.turns().current().is_some());
            assert_eq!(combiner.lock(|| false, |_| ()), None, "a thread has it");
            *passes += 1;
            false
        };
        combiner.combine(1, inside, || unreachable!("all is answered"));
        assert_eq!((combiner.turns().current(), taken(&combiner)), (None, 1));
    }

    /// Outside of a pass a thread hangs with the state; when it comes back, the next visitor makes
    /// the passes.
    #[test]
    fn visit_ends_while_another_thread_keeps_the_state() {
        let combiner = Combiner::new(0);
        let pass = |passes: &mut i32| {
            *passes += 1;
            false
        };
        let waits = || unreachable!("it is free");
        let hangs = |_: &mut i32| combiner.combine(3, |_| unreachable!("it is taken"), || true);
        combiner.lock(waits, hangs).expect("it is free");
        assert_eq!(taken(&combiner), 0);
        combiner.combine(3, pass, || unreachable!("all is answered"));
        assert_eq!(taken(&combiner), 1, "it took the baton");
    }

    /// Work that each pass itself causes, as a service thread in a tight loop does.
    #[test]
    fn visit_ends_while_work_keeps_coming() {
        let combiner = Combiner::new(0);
        let visit_again = || combiner.combine(1, |_| unreachable!("one is inside"), || true);
        let pass = |passes: &mut i32| {
            *passes += 1;
            visit_again();
            false
        };
        combiner.combine(3, pass, || true);
        assert_eq!(taken(&combiner), 3);
        let last = |passes: &mut i32| {
            *passes += 10;
            false
        };
        combiner.combine(3, last, || unreachable!("all is answered"));
        assert_eq!(taken(&combiner), 13, "the next visit took the baton");
    }

    #[test]
    fn pass_returning_true_is_followed_by_another() {
        let combiner = Combiner::new(0);
        let pass = |passes: &mut i32| {
            *passes += 1;
            *passes < 3
        };
        combiner.combine(9, pass, || unreachable!("it made all passes"));
        assert_eq!(taken(&combiner), 3);
    }

    /// Without a thread to take over, it stays until all is answered.
    #[test]
    fn visit_answers_all_without_another_thread() {
        let combiner = Combiner::new(0);
        let pass = |passes: &mut i32| {
            *passes += 1;
            if *passes < 10 {
                combiner.combine(1, |_| unreachable!("one is inside"), || true);
            }
            false
        };
        combiner.combine(3, pass, || false);
        assert_eq!(taken(&combiner), 10);
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
        fn visit(&self, max_passes: usize) -> usize {
            let mut passes = 0;
            let pass = |taken: &mut [usize; SENDERS]| {
                passes += 1;
                for (message, taken) in self.inbox.iter().zip(taken) {
                    *taken = (*taken).max(message.load(Ordering::Relaxed));
                }
                false
            };
            self.combiner.combine(max_passes, pass, || {
                if self.closing.load(Ordering::Relaxed) {
                    return false;
                }
                self.handed_over.fetch_add(1, Ordering::Release);
                true
            });
            passes
        }

        fn send(&self, sender: usize, message: usize, max_passes: usize) -> usize {
            self.inbox[sender].store(message, Ordering::Relaxed);
            self.visit(max_passes)
        }

        fn taken(&self) -> [usize; SENDERS] {
            self.combiner.lock(|| true, |taken| *taken).unwrap()
        }
    }

    /// A client visits once; another thread visits in a loop, as the service thread does while it
    /// polls. However they interleave, the client makes at most `max_passes` passes and all
    /// messages are taken.
    fn visit_during_polling(max_passes: usize) {
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
            let passes = scene.send(0, 1, max_passes);
            polling.join().unwrap();
            assert!(passes <= 1, "{passes} passes in one visit");
            if scene.handed_over.load(Ordering::Acquire) > 0 {
                scene.visit(usize::MAX); // the thread that is woken
            }
            assert_eq!(scene.taken(), [1, 2]);
        });
    }

    #[test]
    fn visit_is_bounded_and_none_is_lost() {
        visit_during_polling(1);
    }

    /// Without the bound the polling thread keeps the client inside: the model is able to fail.
    #[test]
    #[should_panic = "passes in one visit"]
    fn unbounded_visit_lasts_while_work_keeps_coming() {
        visit_during_polling(usize::MAX);
    }

    /// The thread that takes over ends, as a dispatcher does that is dropped: it says so, then
    /// visits once more. No message is left.
    #[test]
    fn last_visit_of_the_service_thread_leaves_none() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3); // three threads: all interleavings take minutes
        model.check(|| {
            let scene = Arc::new(Scene::default());
            let clients: Vec<_> = (0..SENDERS)
                .map(|sender| {
                    let scene = scene.clone();
                    thread::spawn(move || {
                        scene.send(sender, 1, 1);
                    })
                })
                .collect();
            scene.closing.store(true, Ordering::Relaxed);
            scene.visit(usize::MAX);
            clients.into_iter().for_each(|client| client.join().unwrap());
            assert_eq!(scene.taken(), [1, 1]);
        });
    }

    /// A thread hangs in its pass until both others have ended: one that wants the state until it
    /// is told that it hangs, and one that visits. All visits are answered when it comes back.
    #[test]
    fn thread_that_hangs_inside_keeps_no_other() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let scene =
                Arc::new((Scene::default(), AtomicBool::new(false), AtomicBool::new(false)));
            let hangs = thread::spawn({
                let scene = scene.clone();
                move || {
                    let (Scene { combiner, .. }, is_inside, goes_on) = &*scene;
                    let pass = |taken: &mut [usize; SENDERS]| {
                        is_inside.store(true, Ordering::Release);
                        while !goes_on.load(Ordering::Acquire) {
                            thread::yield_now();
                        }
                        taken[0] += 1;
                        false
                    };
                    combiner.combine(usize::MAX, pass, || true);
                }
            });
            let (Scene { combiner, .. }, is_inside, goes_on) = &*scene;
            while !is_inside.load(Ordering::Acquire) {
                thread::yield_now();
            }
            assert_eq!(combiner.lock(|| false, |_| ()), None, "it hangs inside");
            combiner.combine(1, |_| unreachable!("it is inside"), || true);
            goes_on.store(true, Ordering::Release);
            hangs.join().unwrap();
            assert_eq!(scene.0.taken(), [2, 0], "its own visit, and the other");
        });
    }
}
