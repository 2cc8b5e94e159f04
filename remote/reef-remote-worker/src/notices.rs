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
    /// Number of answers, and the last one.
    known: Mutex<(u64, bool)>,
    changed: Condvar,
}

impl Notices {
    /// Tells by this socket.
    pub(crate) fn new(control: OwnedFd) -> Self {
        Self(Arc::new(State { control, known: Mutex::default(), changed: Condvar::new() }))
    }

    /// Notes whether the server takes notice of what it was told last.
    pub(crate) fn noted(&self, is_taken: bool) {
        let mut known = lock(&self.0.known);
        *known = (known.0 + 1, is_taken);
        drop(known);
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
        let before = known.0;
        if control::send(&self.0.control, message, None).is_err() {
            return false;
        }
        let is_old = |known: &mut (u64, bool)| known.0 == before;
        let waited = self.0.changed.wait_timeout_while(known, NOTICE_TIMEOUT, is_old);
        let (number, is_taken) = *waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        number != before && is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn server_may_take_no_notice() {
        let (near, far) = control::pair().unwrap();
        let notices = Notices::new(near);
        for is_taken in [true, false] {
            let key = Key::make().unwrap();
            let known = thread::scope(|scope| {
                scope.spawn(|| {
                    control::receive::<FromWorker>(&far).unwrap();
                    notices.noted(is_taken);
                });
                notices.adopted([7; 16], key)
            });
            assert_eq!(known, is_taken);
        }
    }
}
