//! Messages on their way from the reader to the executor.

use super::lock::lock;
use reef_wire::{Error, Result};
use std::sync::{Condvar, Mutex};

/// Bytes of waiting messages that end the session: a client that keeps to its bounds has fewer.
const MAX_WAITING: usize = 512 << 20;

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

/// Messages from the reader to the executor.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
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

    /// Takes all messages, and leaves an empty list. Waits for one.
    pub(crate) fn take(&self, empty: Waiting) -> Waiting {
        let mut waiting = lock(&self.waiting);
        while waiting.heads.is_empty() {
            waiting = self.changed.wait(waiting).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        std::mem::replace(&mut *waiting, empty)
    }

    /// True if no message waits, as far as can be seen.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.waiting).heads.is_empty()
    }
}
