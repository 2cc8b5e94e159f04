//! Checks whether a device still works, so that one that hangs blocks no caller.
//!
//! Drivers have no call with a time limit: opening a queue, asking it and closing it may each wait
//! for ever. So they are made by a thread that is left behind then. There is at most one, as
//! nothing more is asked until it answers.

use reef_core::{Device, Error, Priority, Queue, Result, Seq};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time for which a caller waits for the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Time without an answer after which a device is lost. Long kernels of others don't keep an empty
/// round from ending.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns whether `error` can come of a device that is lost. Others are about the request, or
/// about a lack of memory.
pub(super) fn may_mean_loss(error: &Error) -> bool {
    matches!(error, Error::DeviceLost { .. } | Error::Driver { .. } | Error::Cancelled)
}

/// Asks the device for an empty round on a queue of its own. Of a device that hangs the answer
/// never comes.
///
/// A kernel that fails ends its queue, and on some devices all of them; only this tells which.
///
/// # Errors
///
/// An error of the device: it is lost.
pub(super) fn probe<D: Device>(device: &D) -> Result<()> {
    let mut queue = device.queue(Priority::RealTime, None)?;
    queue.record(Seq(0), &device.event()?)?;
    while queue.completed()? < Seq(1) {
        thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// Questions to a device, one at a time, that keep no caller for longer than a second.
#[derive(Debug, Default)]
pub struct Prober {
    rounds: Mutex<Rounds>,
    ended: Condvar,
}

/// Questions so far. `begun` is `ended`, or one more.
#[derive(Debug, Default)]
struct Rounds {
    begun: u64,
    ended: u64,
    /// The device is lost: nothing more is asked.
    is_settled: bool,
}

impl Prober {
    /// Asks `question` on a thread of its own and passes the answer to `judge`, which returns
    /// whether the device is lost. It gets `None` if there is no answer within [`SILENCE_TIMEOUT`].
    /// Waits for that, or for a second.
    ///
    /// A question that another caller asks meanwhile serves both if it begins after this call.
    pub fn ask<A: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce() -> A + Send + 'static,
        judge: impl FnOnce(Option<A>) -> bool + Send + 'static,
    ) {
        let until = Instant::now() + ANSWER_TIMEOUT;
        let mut rounds = self.rounds();
        let wanted = rounds.begun + 1;
        let mut asks = Some((question, judge));
        while rounds.ended < wanted && !rounds.is_settled {
            if rounds.ended == rounds.begun {
                let Some((question, judge)) = asks.take() else { return };
                rounds.begun += 1;
                self.begin(&mut rounds, question, judge);
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.ended.wait_timeout(rounds, left);
            rounds = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn rounds(&self) -> MutexGuard<'_, Rounds> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a thread ask and another one wait for it. Without a thread to be had nothing is known.
    fn begin<A: Send + 'static>(
        self: &Arc<Self>,
        rounds: &mut Rounds,
        question: impl FnOnce() -> A + Send + 'static,
        judge: impl FnOnce(Option<A>) -> bool + Send + 'static,
    ) {
        let prober = self.clone();
        let wait = move || {
            let is_lost = answer(question).is_some_and(judge);
            prober.end(&mut prober.rounds(), is_lost);
        };
        if thread::Builder::new().name("reef-probe".into()).spawn(wait).is_err() {
            self.end(rounds, false);
        }
    }

    fn end(&self, rounds: &mut Rounds, is_lost: bool) {
        rounds.ended += 1;
        rounds.is_settled |= is_lost;
        self.ended.notify_all();
    }
}

/// Returns the answer to `question`: `Some(None)` is silence, `None` that it could not be asked, or
/// panicked.
fn answer<A: Send + 'static>(question: impl FnOnce() -> A + Send + 'static) -> Option<Option<A>> {
    let (sender, answer) = channel();
    let ask = move || drop(sender.send(question())); // none waits for a late one
    thread::Builder::new().name("reef-asks".into()).spawn(ask).ok()?;
    match answer.recv_timeout(SILENCE_TIMEOUT) {
        Ok(answer) => Some(Some(answer)),
        Err(RecvTimeoutError::Timeout) => Some(None),
        Err(RecvTimeoutError::Disconnected) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Many callers, and a question that never ends.
    #[test]
    fn prober_leaves_one_question_and_judges_silence() {
        let (prober, asked) = (Arc::new(Prober::default()), Arc::new(AtomicU32::new(0)));
        let (silent, judged) = channel();
        let ask = || {
            let (asked, silent) = (asked.clone(), silent.clone());
            let question = move || {
                asked.fetch_add(1, Ordering::SeqCst);
                thread::sleep(10 * SILENCE_TIMEOUT); // sleep: a device that hangs
            };
            prober.ask(question, move |answer| {
                let _ = silent.send(answer);
                answer.is_none()
            });
        };
        let begin = Instant::now();
        thread::scope(|scope| (0..20).for_each(|_| drop(scope.spawn(ask))));
        assert!(begin.elapsed() < SILENCE_TIMEOUT, "they wait for the verdict");
        assert_eq!(judged.recv_timeout(3 * SILENCE_TIMEOUT), Ok(None));
        while !prober.rounds().is_settled {
            thread::yield_now();
        }
        ask();
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        assert!(judged.try_recv().is_err(), "one verdict");
    }

    #[test]
    fn prober_asks_again_for_what_failed_since() {
        assert!((0..60).any(|_| is_asked_again()), "no caller had its answer in time");
    }

    /// A caller that comes during a question has another one asked. `false`: it waited for as long
    /// as callers do, because a thread had no processor.
    fn is_asked_again() -> bool {
        let prober = Arc::new(Prober::default());
        let (go, wait) = channel::<()>();
        let (begun, begins) = channel();
        let second = Arc::new(AtomicU32::new(0));
        let is_late = thread::scope(|scope| {
            let first = move || {
                begun.send(()).unwrap();
                wait.recv().unwrap();
            };
            scope.spawn(|| prober.ask(first, |_| false));
            begins.recv().unwrap();
            let count = second.clone();
            let again = scope.spawn(|| {
                let begin = Instant::now();
                prober.ask(move || count.fetch_add(1, Ordering::SeqCst), |_| false);
                begin.elapsed() >= ANSWER_TIMEOUT
            });
            // sleep: time in which a fault would show; none fails a right one
            thread::sleep(Duration::from_millis(20));
            assert_eq!(second.load(Ordering::SeqCst), 0, "one at a time");
            go.send(()).unwrap();
            again.join().unwrap()
        });
        let asked = second.load(Ordering::SeqCst);
        assert!(asked == 1 || (asked == 0 && is_late), "{asked} questions, late: {is_late}");
        asked == 1
    }

    #[test]
    fn prober_ends_a_question_that_panics() {
        let prober = Arc::new(Prober::default());
        let begin = Instant::now();
        for asked in 1..=2 {
            prober.ask(|| panic!("on purpose"), |_: Option<()>| panic!("nothing to judge"));
            while prober.rounds().ended < asked {
                assert!(begin.elapsed() < Duration::from_secs(60), "question {asked} never ends");
                thread::yield_now();
            }
        }
        assert!(!prober.rounds().is_settled);
    }
}
