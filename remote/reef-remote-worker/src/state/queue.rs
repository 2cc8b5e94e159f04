//! Messages on their way from the reader to the executor.

use super::lock::lock;
use reef_wire::{Error, Result};
use std::sync::{Condvar, Mutex};

/// Bytes of waiting messages that end the session: a client that keeps to its bounds has fewer.
const MAX_WAITING: usize = 512 << 20;
/// Number of waiting messages that ends the session, however short they are.
const MAX_MESSAGES: usize = 1 << 20;

/// Message that the reader has left for the executor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) op: u16,
    pub(crate) wants_reply: bool,
    pub(crate) lane: u32,
    pub(crate) number: u64,
    pub(crate) len: usize,
}

/// Messages, and their bodies one after another.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) heads: Vec<Head>,
    pub(crate) bodies: Vec<u8>,
}

/// Work between two messages, by the executor's thread.
pub(crate) type Job = Box<dyn FnOnce(Threads) + Send>;

/// Threads of the client: their contexts, and the definitions of their repeated calls.
#[derive(Debug)]
pub(crate) struct Threads {
    pub(crate) lanes: Vec<(u32, u64)>,
    pub(crate) templates: Vec<Vec<u8>>,
}

/// Messages from the reader to the executor.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    jobs: Mutex<Vec<Job>>,
    changed: Condvar,
}

impl Queue {
    /// Leaves a message.
    ///
    /// # Errors
    ///
    /// `Protocol` if too much waits already.
    pub(crate) fn push(&self, message: &reef_wire::Message<'_>) -> Result<()> {
        let mut waiting = lock(&self.waiting);
        if waiting.bodies.len() > MAX_WAITING {
            return Err(Error::Protocol(format!("more than {MAX_WAITING} bytes wait")));
        }
        if waiting.heads.len() >= MAX_MESSAGES {
            return Err(Error::Protocol(format!("more than {MAX_MESSAGES} messages wait")));
        }
        let &reef_wire::Message { op, lane, number, wants_reply, body } = message;
        waiting.heads.push(Head { op, wants_reply, lane, number, len: body.len() });
        waiting.bodies.extend_from_slice(body);
        let is_first = waiting.heads.len() == 1;
        drop(waiting);
        if is_first {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Leaves a message that came to another process.
    pub(crate) fn push_again(&self, head: Head, body: &[u8]) {
        let mut waiting = lock(&self.waiting);
        waiting.heads.push(head);
        waiting.bodies.extend_from_slice(body);
        self.changed.notify_one();
    }

    /// Has the executor do this before the messages that come from now on.
    pub(crate) fn interrupt(&self, job: Job) {
        let _waiting = lock(&self.waiting);
        lock(&self.jobs).push(job);
        self.changed.notify_one();
    }

    /// Takes all messages and the work that follows them, and leaves an empty list. Waits for
    /// either.
    pub(crate) fn take(&self, empty: Waiting) -> (Waiting, Vec<Job>) {
        let mut waiting = lock(&self.waiting);
        loop {
            let jobs = std::mem::take(&mut *lock(&self.jobs));
            if !waiting.heads.is_empty() || !jobs.is_empty() {
                return (std::mem::replace(&mut *waiting, empty), jobs);
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Returns the messages that wait. They stay.
    pub(crate) fn pending(&self) -> Vec<(Head, Vec<u8>)> {
        let waiting = lock(&self.waiting);
        let mut at = 0;
        let body = |head: &Head| {
            at += head.len;
            (*head, waiting.bodies[at - head.len..at].to_vec())
        };
        waiting.heads.iter().map(body).collect()
    }

    /// True if no message waits, as far as can be seen.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.waiting).heads.is_empty()
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("is_empty", &self.is_empty()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_messages_that_wait_are_bounded() {
        let queue = Queue::default();
        let message =
            reef_wire::Message { op: 99, lane: 1, number: 1, wants_reply: false, body: &[] };
        let taken = (0..2 * MAX_MESSAGES).take_while(|_| queue.push(&message).is_ok()).count();
        assert_eq!(taken, MAX_MESSAGES);
        let (waiting, _) = queue.take(Waiting::default());
        assert_eq!(waiting.heads.len(), MAX_MESSAGES);
        queue.push(&message).unwrap();
    }
}
