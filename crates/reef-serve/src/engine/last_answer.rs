//! Last answer to a question that may never be answered.
//!
//! A thread asks, because a call of a driver has no time limit. If the call hangs, the thread is
//! left behind, and nothing more is asked until it returns. Callers get the last answer then.

use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Last answer to a question, which is asked by one thread at a time.
#[derive(Debug, Default)]
pub(super) struct LastAnswer<A> {
    rounds: Mutex<Rounds<A>>,
    ended: Condvar,
}

/// Questions so far. `begun` is `ended`, or one more.
#[derive(Debug, Default)]
struct Rounds<A> {
    begun: u64,
    ended: u64,
    /// Time until which callers wait for the question that began last.
    until: Option<Instant>,
    last: A,
}

impl<A: Copy + Send + 'static> LastAnswer<A> {
    /// Asks `question` on a thread of its own and returns the answer; the last one if there is none
    /// within `timeout`. Does not wait for a question that has been open for longer.
    ///
    /// A question that another caller asks meanwhile serves both if it begins after this call.
    pub(super) fn ask(
        self: &Arc<Self>,
        timeout: Duration,
        question: impl FnOnce() -> A + Send + 'static,
    ) -> A {
        let mut question = Some(question);
        let mut rounds = self.rounds.lock();
        let wanted = rounds.begun + 1;
        while rounds.ended < wanted {
            if rounds.ended == rounds.begun
                && let Some(question) = question.take()
            {
                rounds.until = Instant::now().checked_add(timeout);
                self.begin(&mut rounds, question);
                continue;
            }
            let Some(until) = rounds.until else { break };
            if self.ended.wait_until(&mut rounds, until).timed_out() {
                break;
            }
        }
        rounds.last
    }

    /// Returns the last answer without a question.
    pub(super) fn get(&self) -> A {
        self.rounds.lock().last
    }

    fn begin(
        self: &Arc<Self>,
        rounds: &mut Rounds<A>,
        question: impl FnOnce() -> A + Send + 'static,
    ) {
        rounds.begun += 1;
        let own = self.clone();
        let ask = move || {
            let answer = catch_unwind(AssertUnwindSafe(question)); // a panic has been printed
            own.end(&mut own.rounds.lock(), answer.ok());
        };
        if thread::Builder::new().name("reef-asks".into()).spawn(ask).is_err() {
            self.end(rounds, None);
        }
    }

    fn end(&self, rounds: &mut Rounds<A>, answer: Option<A>) {
        rounds.ended += 1;
        rounds.last = answer.unwrap_or(rounds.last);
        self.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::channel;

    /// Longer than anything takes on a busy machine.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn question_that_hangs_keeps_one_thread_and_no_caller() {
        let (answers, asked) = (Arc::new(LastAnswer::default()), Arc::new(AtomicU32::new(0)));
        assert_eq!(answers.ask(LONG, || 1), 1);
        let (release, held) = channel::<()>();
        let count = asked.clone();
        let hung = move || {
            count.fetch_add(1, Ordering::SeqCst);
            held.recv().map_or(2, |()| 0)
        };
        assert_eq!(answers.ask(Duration::from_millis(1), hung), 1, "the last answer");
        for _ in 0..100 {
            let count = asked.clone();
            let another = move || count.fetch_add(1, Ordering::SeqCst);
            assert_eq!(answers.ask(LONG, another), 1);
        }
        drop(release);
        while answers.get() != 2 {
            thread::yield_now();
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1, "nothing more was asked meanwhile");
        assert_eq!(answers.ask(LONG, || 3), 3);
    }

    #[test]
    fn question_that_panics_leaves_the_last_answer() {
        let answers = Arc::new(LastAnswer::default());
        assert_eq!(answers.ask(LONG, || 1), 1);
        assert_eq!(answers.ask(LONG, || panic!("on purpose")), 1);
        assert_eq!(answers.ask(LONG, || 2), 2);
    }
}
