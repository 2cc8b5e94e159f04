//! Notices of a worker to its server: which sessions it has, and which are elsewhere.

use crate::control::{self, FromWorker};
use crate::state::lock::lock;
use reef_wire::{Key, Moved};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Time within which the server must take notice.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(5);

/// Way to tell the server about sessions, and to wait until it knows.
#[derive(Debug, Clone)]
pub(crate) struct Notices(Arc<State>);

#[derive(Debug)]
struct State {
    control: OwnedFd,
    known: Mutex<u64>,
    changed: Condvar,
}

impl Notices {
    /// Tells by this socket.
    pub(crate) fn new(control: OwnedFd) -> Self {
        Self(Arc::new(State { control, known: Mutex::default(), changed: Condvar::new() }))
    }

    /// Notes that the server knows what it was told last.
    pub(crate) fn noted(&self) {
        *lock(&self.0.known) += 1;
        self.0.changed.notify_all();
    }

    /// This process has a session of this name.
    pub(crate) fn adopted(&self, name: [u8; 16], key: Key) -> bool {
        self.tell(&FromWorker::Adopted { name, key })
    }

    /// The session of this name is at another server.
    pub(crate) fn moved(&self, name: [u8; 16], moved: Moved) -> bool {
        self.tell(&FromWorker::Moved { name, moved })
    }

    /// Returns whether the server has taken notice.
    fn tell(&self, message: &FromWorker) -> bool {
        let known = lock(&self.0.known);
        let before = *known;
        if control::send(&self.0.control, message, None).is_err() {
            return false;
        }
        let is_old = |known: &mut u64| *known == before;
        let waited = self.0.changed.wait_timeout_while(known, NOTICE_TIMEOUT, is_old);
        *waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0 != before
    }
}
