//! One task's part in a benchmark: it launches when its load says so, until the end. The same
//! whether the task is a thread here or a process of its own.

use super::load::{Inbox, Load, Pace};
use super::requests::{Phases, Requests};
use crate::workload::clock::wait;
use anyhow::Result;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Longest time after the end for a request to finish.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// Client that makes a task's requests.
pub(crate) trait Launch {
    /// The time on a clock that all tasks share.
    fn clock(&self) -> Duration;

    /// One request; `None` if it hasn't finished when the clock shows `until`.
    fn request(&mut self, until: Duration) -> Result<Option<Phases>>;
}

/// One task in a benchmark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskLoop<'a> {
    pub(crate) load: &'a Load,
    /// Delay of a periodic task's first launch.
    pub(crate) delay: Duration,
    /// Length of the benchmark.
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    /// When the first requests are due.
    pub(crate) begin: Duration,
    /// Results that it waits for, if it depends on others.
    pub(crate) mail: Option<&'a Mailbox>,
}

/// Results on their way to a task that depends on them.
#[derive(Debug)]
pub(crate) struct Mailbox {
    inbox: Mutex<Inbox>,
    arrival: Condvar,
}

impl TaskLoop<'_> {
    /// Makes the requests; `done` gets the number of each that has finished.
    pub(crate) fn play(
        &self,
        client: &mut impl Launch,
        mut done: impl FnMut(u64) -> Result<()>,
    ) -> Result<Requests> {
        let mut pace = Pace::new(self.load, self.delay, self.time, self.seed);
        let mut requests = Requests::default();
        let until = self.begin + self.time + GRACE;
        for number in 0.. {
            let Some((moment, number)) = self.next(client, &mut pace, number) else { break };
            wait(|| client.clock(), self.begin + moment);
            let late = client.clock().saturating_sub(self.begin + moment);
            let Some(phases) = client.request(until)? else {
                requests.unfinished += 1;
                break;
            };
            requests.note(&phases, late);
            done(number)?;
        }
        requests.skipped = pace.skipped;
        Ok(requests)
    }

    /// When it launches next, and the number of its result: that of those it depends on, or else
    /// how many it has had.
    fn next(&self, client: &impl Launch, pace: &mut Pace, number: u64) -> Option<(Duration, u64)> {
        let now = || client.clock().saturating_sub(self.begin);
        match self.mail {
            Some(mail) => mail.take(|| self.time.checked_sub(now())).map(|n| (now(), n)),
            None => pace.next(now()).map(|moment| (moment, number)),
        }
    }
}

impl Mailbox {
    /// Mailbox of a task that depends on `wanted` others.
    pub(crate) fn new(wanted: usize) -> Self {
        Self { inbox: Mutex::new(Inbox::new(wanted)), arrival: Condvar::new() }
    }

    /// Result `number` of task `from` is there.
    pub(crate) fn put(&self, number: u64, from: usize) {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).put(number, from);
        self.arrival.notify_all();
    }

    /// The next number of which all results are there; `None` if no time is `left`.
    fn take(&self, left: impl Fn() -> Option<Duration>) -> Option<u64> {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = left().filter(|left| !left.is_zero())?;
            if let Some(number) = inbox.take() {
                return Some(number);
            }
            let waited = self.arrival.wait_timeout(inbox, left);
            inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const BEGIN: Duration = Duration::from_millis(5);
    /// Simulated time of one read of the clock.
    const READ_TIME: Duration = Duration::from_micros(100);

    /// Takes so long for its first requests, and no time for others; `None`: it doesn't finish.
    #[derive(Default)]
    struct Fake {
        now: Cell<Duration>,
        takes: Vec<Option<Duration>>,
        starts: Vec<Duration>,
    }

    impl Launch for Fake {
        fn clock(&self) -> Duration {
            self.now.set(self.now.get() + READ_TIME);
            self.now.get()
        }

        fn request(&mut self, _until: Duration) -> Result<Option<Phases>> {
            let takes = self.takes.get(self.starts.len()).copied().unwrap_or(Some(Duration::ZERO));
            self.starts.push(self.now.get());
            let Some(infer) = takes else { return Ok(None) };
            self.now.set(self.now.get() + infer);
            Ok(Some(Phases { infer, ..Phases::default() }))
        }
    }

    /// Runs a task for ten milliseconds. Returns its requests and the numbers of its results.
    fn play(fake: &mut Fake, load: &Load, mail: Option<&Mailbox>) -> (Requests, Vec<u64>) {
        let time = Duration::from_millis(10);
        let (delay, begin) = (Duration::ZERO, BEGIN);
        let task_loop = TaskLoop { load, delay, time, seed: 1, begin, mail };
        let mut numbers = Vec::new();
        let done = |number| {
            numbers.push(number);
            Ok(())
        };
        (task_loop.play(fake, done).unwrap(), numbers)
    }

    /// The first request takes until after the beat at 3 ms, so those at 1 and 2 are missed.
    #[test]
    fn requests_begin_when_they_are_due_and_missed_ones_are_counted() {
        let takes = vec![Some(Duration::from_micros(3500))];
        let mut fake = Fake { takes, ..Fake::default() };
        let every = Load::Periodic { frequency: 1000.0, priority: 0 };
        let (requests, numbers) = play(&mut fake, &every, None);
        assert_eq!((requests.latency.len(), requests.skipped), (8, 2));
        assert_eq!(numbers, (0..8).collect::<Vec<_>>());
        let beats = [0, 3, 4, 5, 6, 7, 8, 9].map(|n| BEGIN + Duration::from_millis(n));
        for (&start, due) in fake.starts.iter().zip(beats) {
            assert!(start >= due && start < due + Duration::from_millis(1), "{start:?} {due:?}");
        }
    }

    /// At 0, 1, 2 ... ms; the first takes until 1.6, so the second launches 0.6 ms late.
    #[test]
    fn a_late_launch_counts_from_when_it_was_due() {
        let takes = vec![Some(Duration::from_micros(1500))];
        let mut fake = Fake { takes, ..Fake::default() };
        let every = Load::Periodic { frequency: 1000.0, priority: 0 };
        let (requests, _) = play(&mut fake, &every, None);
        let micros = |histogram: &hdrhistogram::Histogram<u64>, share| {
            histogram.value_at_quantile(share) / 1000
        };
        assert_eq!((requests.latency.len(), requests.skipped), (10, 0));
        assert_eq!(micros(&requests.latency, 0.9), 0, "the second one takes no time itself");
        assert!(micros(&requests.from_due, 0.9) >= 500, "{}", micros(&requests.from_due, 0.9));
        assert!(micros(&requests.from_due, 0.8) < 500, "{}", micros(&requests.from_due, 0.8));
    }

    #[test]
    fn dependent_result_has_number_of_its_inputs() {
        let load = Load::Dependent { on: vec!["a".into(), "b".into()] };
        let mail = Mailbox::new(2);
        for (number, from) in [(3, 0), (4, 0), (7, 0), (7, 1), (3, 1)] {
            mail.put(number, from);
        }
        let (requests, numbers) = play(&mut Fake::default(), &load, Some(&mail));
        assert_eq!((requests.latency.len(), numbers), (2, vec![3, 7]));
    }

    #[test]
    fn a_request_that_does_not_finish_is_the_last() {
        let mut fake = Fake { takes: vec![Some(Duration::ZERO), None], ..Fake::default() };
        let (requests, numbers) = play(&mut fake, &Load::Continuous, None);
        assert_eq!((requests.latency.len(), requests.unfinished), (1, 1));
        assert_eq!((numbers, fake.starts.len()), (vec![0], 2));
    }
}
