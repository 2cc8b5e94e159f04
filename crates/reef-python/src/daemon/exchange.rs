//! Requests of many threads on one connection.

use parking_lot::{Condvar, Mutex, MutexGuard};
use reef_serve::{Client, Error, Result, Timing};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// A connection that threads share.
pub(super) struct Exchange {
    state: Mutex<State>,
    /// Notified when answers were taken, or the thread that waits for the daemon has stopped.
    changed: Condvar,
}

/// Answer of a request, or the error that it ended with.
pub(super) type Outcome = Result<Answer>;

/// Output of a request, and its times.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) output: Vec<f32>,
    pub(super) timing: Timing,
    /// Time from the request until its answer was taken.
    pub(super) total: Duration,
}

/// Number of a request.
pub(super) type RequestId = u64;

struct State {
    client: Client,
    next: RequestId,
    /// Requests without an answer, in the daemon's order.
    open: VecDeque<OpenRequest>,
    answered: HashMap<RequestId, Outcome>,
    /// True while a thread waits for the daemon, without the lock.
    has_waiter: bool,
    /// True if the connection has ended.
    is_lost: bool,
}

struct OpenRequest {
    id: RequestId,
    since: Instant,
    /// False if no thread will ask for the answer.
    is_wanted: bool,
}

impl Exchange {
    pub(super) fn new(client: Client) -> Self {
        let state = State {
            client,
            next: 0,
            open: VecDeque::new(),
            answered: HashMap::new(),
            has_waiter: false,
            is_lost: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Requests an inference, to end within `timeout`.
    ///
    /// # Errors
    ///
    /// Errors of [`Client::submit`]; `Unavailable` after the end of the connection.
    pub(super) fn submit(&self, input: &[f32], timeout: Option<Duration>) -> Result<RequestId> {
        let mut state = self.state.lock();
        state.take_answers(); // which frees slots
        if state.is_lost {
            return Err(Error::Unavailable("the connection to the daemon has ended".into()));
        }
        state.client.set_timeout(timeout);
        state.client.submit(input)?;
        let id = state.next;
        state.next += 1;
        state.open.push_back(OpenRequest { id, since: Instant::now(), is_wanted: true });
        Ok(id)
    }

    /// Returns what the request ended with, once; `None` if it has not ended within `limit`.
    pub(super) fn wait(&self, id: RequestId, limit: Duration) -> Option<Outcome> {
        let end = Instant::now() + limit;
        let mut state = self.state.lock();
        loop {
            state.take_answers();
            if let Some(outcome) = state.answered.remove(&id) {
                return Some(outcome);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            if state.has_waiter {
                self.changed.wait_for(&mut state, left);
                continue;
            }
            let Some(pending) = state.client.pending() else {
                return Some(Err(Error::Invalid("the answer was taken".into())));
            };
            state.has_waiter = true;
            MutexGuard::unlocked(&mut state, || pending.wait(left));
            state.has_waiter = false;
            state.take_answers();
            self.changed.notify_all();
        }
    }

    /// Returns whether the connection has ended, as far as that was seen.
    pub(super) fn is_lost(&self) -> bool {
        self.state.lock().is_lost
    }

    /// Drops the answer of a request, now or when it comes.
    pub(super) fn abandon(&self, id: RequestId) {
        let mut state = self.state.lock();
        state.answered.remove(&id);
        if let Some(open) = state.open.iter_mut().find(|open| open.id == id) {
            open.is_wanted = false;
        }
    }
}

impl State {
    /// Takes all answers that are there.
    fn take_answers(&mut self) {
        while !self.open.is_empty() {
            let before = self.client.open_requests();
            match self.client.try_receive() {
                Ok(None) => return,
                Ok(Some((output, timing))) => {
                    self.finish(|since| Ok(Answer { output, timing, total: since.elapsed() }));
                }
                Err(error) if self.client.open_requests() == before => return self.lose(&error),
                Err(error) => self.finish(|_| Err(error)),
            }
        }
    }

    /// Ends the oldest request.
    fn finish(&mut self, outcome: impl FnOnce(Instant) -> Outcome) {
        let Some(OpenRequest { id, since, is_wanted }) = self.open.pop_front() else { return };
        if is_wanted {
            self.answered.insert(id, outcome(since));
        }
    }

    /// Ends all requests of a connection that has ended.
    fn lose(&mut self, error: &Error) {
        self.is_lost = true;
        while !self.open.is_empty() {
            self.finish(|_| Err(error.clone()));
        }
    }
}
