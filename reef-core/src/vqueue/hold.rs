//! Holds of a queue, and whether the queue's work on the device has been taken back.
//!
//! Two numbers with one writer each, so that nothing is noted of one preemption that belongs to
//! another: a hold has a number, and taking back notes the number of the hold that it was done for.
//! A thread that takes back reads the number once, and does nothing without one: a queue that was
//! released may launch again.
//!
//! The group releases all its queues at once, and each queue's hold ends when its own work has been
//! taken back: a queue that *lags* keeps no other from going on.
//!
//! | the hold | launches | ended by |
//! |---|---|---|
//! | lasts | no | the group, which releases it |
//! | is being released: the queue lags | no | the thread that takes back, or finds that it was done; the group may begin it again |
//! | is over | yes | the group, which begins the next |
//!
//! `reef-core/loom` has a model of this with a worker, a group and a submitter.

use crate::sync::primitives::{AtomicU64, Ordering, fence};

/// Progress of taking back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reclaim {
    /// The queue is quiesced.
    Done,
    /// The device isn't done, and reports it when it is.
    Pending,
    /// The queue is not held any more. The device need not have anything that it could report.
    Released,
}

/// Twice the number of the hold, which is odd while it lasts, and [`RELEASING`]. Begun and released
/// by the group, ended by the group and by the thread that takes back.
#[derive(Debug, Default)]
pub(crate) struct Hold(AtomicU64);

/// The hold ends as soon as the queue's work has been taken back.
const RELEASING: u64 = 1;

impl Hold {
    /// Nothing is launched from now on. Returns whether this is another hold than the last: one
    /// that is being released and has not ended goes on.
    pub(crate) fn begin(&self) -> bool {
        let begun = |state: u64| match number(state) {
            Some(_) => state & !RELEASING,
            None => state + 2,
        };
        let before = self.change(|state| Some(begun(state)));
        before.is_some_and(|state| number(state).is_none())
    }

    /// Launches go on, whether or not the queue's work has been taken back.
    pub(crate) fn end(&self) {
        self.change(|state| number(state).map(|_| (state & !RELEASING) + 2));
    }

    /// Launches go on when the queue's work has been taken back. Must be followed by
    /// [`settle`](Self::settle).
    pub(crate) fn release_when_drained(&self) {
        self.change(|state| number(state).map(|_| state | RELEASING));
    }

    /// Ends a hold that is being released if its work has been taken back. Returns whether it did:
    /// to exactly one caller.
    ///
    /// One thread releases, another notes what it took back, and both call this afterwards: the
    /// fence has one of them see what the other did.
    pub(crate) fn settle(&self, quiesced: &Quiesced) -> bool {
        fence(Ordering::SeqCst);
        self.end_if_noted(quiesced)
    }

    fn end_if_noted(&self, quiesced: &Quiesced) -> bool {
        let over = |state: u64| {
            let number = number(state).filter(|_| state & RELEASING != 0)?;
            quiesced.is_noted_for(number).then_some((state & !RELEASING) + 2)
        };
        self.change(over).is_some()
    }

    /// Returns the state before the change, if it was changed.
    fn change(&self, to: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, to).ok()
    }

    /// Returns whether nothing may be launched.
    pub(crate) fn is_held(&self) -> bool {
        self.current().is_some()
    }

    /// Returns whether nothing may be launched until the group releases it. This is one load: a
    /// hold that is being released may end between two.
    pub(crate) fn lasts(&self) -> bool {
        let state = self.0.load(Ordering::Acquire);
        number(state).is_some() && state & RELEASING == 0
    }

    /// Returns whether nothing may be launched because the queue's own work has not been taken
    /// back, and for no other reason.
    pub(crate) fn is_releasing(&self) -> bool {
        self.0.load(Ordering::Acquire) & RELEASING != 0
    }

    /// Returns the number of the hold that lasts now.
    pub(crate) fn current(&self) -> Option<u64> {
        number(self.0.load(Ordering::Acquire))
    }
}

/// Returns the number of the hold that lasts in `state`.
fn number(state: u64) -> Option<u64> {
    Some(state >> 1).filter(|number| number % 2 == 1)
}

/// The last hold for which the queue's work was taken back, and the number of commands. Written
/// under the launcher's lock.
#[derive(Debug, Default)]
pub(crate) struct Quiesced {
    hold: AtomicU64,
    rerun: AtomicU64,
}

impl Quiesced {
    /// Takes back by `drain` what the device has of a held queue, once in each hold. `drain`
    /// returns the number of commands that will be launched again, or `None` while the device isn't
    /// done. The caller has the launcher's lock.
    ///
    /// The hold is read once: it begins before the queue is evicted and lasts until it is noted,
    /// and nothing is launched meanwhile. A thread that comes after the release of the queue leaves
    /// the device alone, which has nothing to report then.
    ///
    /// # Errors
    ///
    /// Returns the error of `drain`.
    pub(crate) fn reclaim<E>(
        &self,
        hold: &Hold,
        drain: impl FnOnce() -> Result<Option<u64>, E>,
    ) -> Result<Reclaim, E> {
        let Some(hold) = hold.current() else { return Ok(Reclaim::Released) };
        if self.is_noted_for(hold) {
            return Ok(Reclaim::Done); // by a thread that had the launcher before
        }
        let Some(rerun) = drain()? else { return Ok(Reclaim::Pending) };
        self.note(hold, rerun); // still locked: nothing was launched since the hold was read
        Ok(Reclaim::Done)
    }

    /// The device has nothing of the queue for as long as the hold `number` lasts; `rerun` commands
    /// will be launched again.
    pub(crate) fn note(&self, number: u64, rerun: u64) {
        self.rerun.fetch_add(rerun, Ordering::Relaxed);
        self.hold.store(number, Ordering::Release);
    }

    /// Returns whether it was noted for the hold that lasts now.
    pub(crate) fn is_noted(&self, hold: &Hold) -> bool {
        hold.current().is_some_and(|number| self.is_noted_for(number))
    }

    /// Returns whether the last hold that it was noted for is this one.
    pub(crate) fn is_noted_for(&self, number: u64) -> bool {
        self.hold.load(Ordering::Acquire) == number
    }

    /// Returns the number of commands that are launched again, of all holds together.
    pub(crate) fn rerun(&self) -> u64 {
        self.rerun.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn drain_noted_for_one_hold_does_not_count_for_the_next() {
        let (hold, quiesced) = (Hold::default(), Quiesced::default());
        assert!(!quiesced.is_noted(&hold), "not even held");
        hold.begin();
        let first = hold.current().unwrap();
        hold.end();
        hold.begin();
        quiesced.note(first, 2); // by a worker that was late
        assert!(!quiesced.is_noted(&hold));
        quiesced.note(hold.current().unwrap(), 1);
        assert!(quiesced.is_noted(&hold));
        hold.end();
        assert!(!quiesced.is_noted(&hold));
        assert_eq!(quiesced.rerun(), 3);
    }

    #[test]
    fn releasing_hold_ends_when_its_work_is_taken_back() {
        let (hold, quiesced) = (Hold::default(), Quiesced::default());
        hold.begin();
        hold.release_when_drained();
        assert!(!hold.settle(&quiesced) && hold.is_held() && hold.is_releasing());
        quiesced.note(hold.current().unwrap(), 0);
        assert!(hold.settle(&quiesced), "the thread that takes back ends it");
        assert!(!hold.settle(&quiesced) && !hold.is_held() && !hold.is_releasing());
        hold.release_when_drained();
        assert!(!hold.is_releasing(), "nothing is held");
    }

    #[test]
    fn hold_begun_again_while_its_queue_lags_is_the_same() {
        let (hold, quiesced) = (Hold::default(), Quiesced::default());
        assert!(hold.begin());
        let number = hold.current().unwrap();
        hold.release_when_drained();
        assert!(!hold.begin() && !hold.is_releasing());
        quiesced.note(number, 1); // asked for before it began again; nothing was launched since
        assert!(!hold.settle(&quiesced) && quiesced.is_noted(&hold));
        hold.release_when_drained();
        assert!(hold.settle(&quiesced) && !hold.is_held());
        assert!(hold.begin() && !quiesced.is_noted(&hold));
    }

    #[test]
    fn second_begin_of_a_hold_changes_nothing() {
        let hold = Hold::default();
        assert!(hold.begin());
        assert!(!hold.begin());
        assert!(hold.is_held());
        hold.end();
        assert!(!hold.is_held());
        hold.end();
        assert!(!hold.is_held());
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::primitives::{Arc, thread};

    /// The group releases while a worker takes back: one of the two ends the hold by `settle`, and
    /// not both.
    fn release_during_a_drain(settle: fn(&Hold, &Quiesced) -> bool) {
        loom::model(move || {
            let queue = Arc::new((Hold::default(), Quiesced::default()));
            queue.0.begin();
            let number = queue.0.current().unwrap();
            let worker = thread::spawn({
                let queue = queue.clone();
                move || {
                    queue.1.note(number, 0);
                    settle(&queue.0, &queue.1)
                }
            });
            queue.0.release_when_drained();
            let ended = settle(&queue.0, &queue.1);
            assert!(ended ^ worker.join().unwrap(), "ended by one of them");
            assert!(!queue.0.is_held());
        });
    }

    #[test]
    fn releasing_hold_is_ended_once() {
        release_during_a_drain(Hold::settle);
    }

    #[test]
    #[should_panic = "ended by one of them"]
    fn releasing_hold_stays_without_the_fence() {
        release_during_a_drain(Hold::end_if_noted);
    }

    /// The group has released the queue, so it is not preempted, whether the worker has taken its
    /// work back or not.
    fn released_queue_is_not_preempted(is_preempted: fn(&Hold) -> bool) {
        loom::model(move || {
            let queue = Arc::new((Hold::default(), Quiesced::default()));
            queue.0.begin();
            let number = queue.0.current().unwrap();
            assert!(is_preempted(&queue.0));
            queue.0.release_when_drained();
            let worker = thread::spawn({
                let queue = queue.clone();
                move || {
                    queue.1.note(number, 0);
                    queue.0.settle(&queue.1)
                }
            });
            assert!(!is_preempted(&queue.0), "it was released");
            worker.join().unwrap();
        });
    }

    #[test]
    fn hold_that_is_released_does_not_last() {
        released_queue_is_not_preempted(Hold::lasts);
    }

    #[test]
    #[should_panic = "it was released"]
    fn two_loads_find_a_hold_that_has_ended() {
        released_queue_is_not_preempted(|hold| {
            let is_held = hold.is_held();
            thread::yield_now(); // loom does not switch between two loads of a thread
            is_held && !hold.is_releasing()
        });
    }

    /// The group begins the hold again while a worker takes back: the queue is held, whatever the
    /// worker found.
    #[test]
    fn hold_begun_again_during_a_drain_lasts() {
        loom::model(|| {
            let queue = Arc::new((Hold::default(), Quiesced::default()));
            queue.0.begin();
            let number = queue.0.current().unwrap();
            queue.0.release_when_drained();
            let worker = thread::spawn({
                let queue = queue.clone();
                move || {
                    queue.1.note(number, 0);
                    queue.0.settle(&queue.1)
                }
            });
            let is_new = queue.0.begin();
            let ended = worker.join().unwrap();
            assert!(queue.0.is_held() && !queue.0.is_releasing());
            assert_eq!((is_new, queue.1.is_noted(&queue.0)), (ended, !ended));
        });
    }
}
