//! One task's part in a benchmark: it launches when its load says so, until the end. The same whether
//! the task is a thread here or a process of its own.

use super::client::{Phases, Requests};
use super::load::{Inbox, Load, Pace};
use crate::bench::time::wait;
use anyhow::Result;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long after the end a request may still finish.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// What makes a task's requests.
pub(super) trait Launch {
    /// The time on a clock that all tasks share.
    fn clock(&self) -> Duration;

    /// One request; `None` if it hasn't finished when the clock shows `until`.
    fn request(&mut self, until: Duration) -> Result<Option<Phases>>;
}

/// What a task does in a benchmark.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) load: &'a Load,
    /// How much later than others a periodic task starts.
    pub(super) delay: Duration,
    /// How long the benchmark lasts.
    pub(super) time: Duration,
    pub(super) seed: u64,
    /// When the first requests are due.
    pub(super) begin: Duration,
    /// What it waits for if it depends on others.
    pub(super) mail: Option<&'a Mail>,
}

/// Results on their way to a task that depends on them.
#[derive(Debug)]
pub(super) struct Mail {
    inbox: Mutex<Inbox>,
    news: Condvar,
}

impl Part<'_> {
    /// Makes the requests; `done` hears the number of each that has finished.
    pub(super) fn play(
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
            let Some(phases) = client.request(until)? else {
                requests.unfinished += 1;
                break;
            };
            requests.note(&phases);
            done(number)?;
        }
        requests.skipped = pace.skipped;
        Ok(requests)
    }

    /// When it launches next, and the number of its result: that of those it depends on, or else how
    /// many it has had.
    fn next(&self, client: &impl Launch, pace: &mut Pace, number: u64) -> Option<(Duration, u64)> {
        let now = || client.clock().saturating_sub(self.begin);
        match self.mail {
            Some(mail) => mail.take(|| self.time.checked_sub(now())).map(|n| (now(), n)),
            None => pace.next(now()).map(|moment| (moment, number)),
        }
    }
}

impl Mail {
    /// For a task that depends on as many as `wanted`.
    pub(super) fn new(wanted: usize) -> Self {
        Self { inbox: Mutex::new(Inbox::new(wanted)), news: Condvar::new() }
    }

    /// Result `number` of task `from` is there.
    pub(super) fn put(&self, number: u64, from: usize) {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).put(number, from);
        self.news.notify_all();
    }

    /// The next number of which all results are there; `None` if no time is `left`.
    fn take(&self, left: impl Fn() -> Option<Duration>) -> Option<u64> {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = left().filter(|left| !left.is_zero())?;
            if let Some(number) = inbox.take() {
                return Some(number);
            }
            let waited = self.news.wait_timeout(inbox, left);
            inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
