//! Owner of a network's memory: a thread, or a request.
//!
//! A thread holds it before it writes inputs, and until it has read the outputs or leaves it to the
//! request that it has submitted. So inputs, request and outputs belong together.
//!
//! | owner | begins with | ends with |
//! |---|---|---|
//! | none | the end of a hold or of a request | [`Owner::take`] |
//! | hold | [`Owner::take`] | drop of the [`Hold`] |
//! | request | drop of a hold that began one | the request's end |

use crate::fault::{Fault, Reason, Result};
use crate::request::Request;
use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::time::{Duration, Instant};

/// Owner of a network's memory.
#[derive(Default)]
pub(crate) struct Owner {
    state: Mutex<State>,
    /// Signalled when a hold ends.
    ended: Condvar,
}

#[derive(Default)]
enum State {
    #[default]
    None,
    Held,
    /// The newest request, which may have ended.
    Request(Request),
}

/// A thread's hold of the memory.
pub(crate) struct Hold<'a> {
    owner: &'a Owner,
    /// Its newest request.
    request: Option<Request>,
}

impl fmt::Debug for Hold<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Hold").field("request", &self.request.is_some()).finish_non_exhaustive()
    }
}

impl Owner {
    /// Takes the memory. Waits for the end of a hold, but not of a request, for no longer than
    /// `limit`; `None`: it is held still.
    pub(crate) fn take(&self, limit: Option<Duration>) -> Option<Result<Hold<'_>>> {
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.state.lock();
        while matches!(*state, State::Held) {
            match end {
                None => self.ended.wait(&mut state),
                Some(end) if self.ended.wait_until(&mut state, end).timed_out() => return None,
                Some(_) => {}
            }
        }
        if let State::Request(request) = &*state
            && let Err(fault) = ended(request)
        {
            return Some(Err(fault));
        }
        *state = State::Held;
        Some(Ok(Hold { owner: self, request: None }))
    }
}

impl Hold<'_> {
    /// Notes a request, which owns the memory until it ends.
    pub(crate) fn begin(&mut self, request: Request) {
        self.request = Some(request);
    }

    /// Refuses if its request has not ended.
    pub(crate) fn ended(&self) -> Result<()> {
        self.request.as_ref().map_or(Ok(()), ended)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        *self.owner.state.lock() = self.request.take().map_or(State::None, State::Request);
        self.owner.ended.notify_all();
    }
}

fn ended(request: &Request) -> Result<()> {
    match request.poll() {
        None => Err(Fault::busy("a request of the network has not ended")),
        Some(Err(fault)) if fault.reason == Reason::Lost => {
            let why = "the network's last request was lost, and may still write its memory";
            Err(Fault::new(Reason::Lost, format!("{why}: make another instance ({fault})")))
        }
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{AnyRequest, Times};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    /// A request that goes on until it is lost.
    #[derive(Default)]
    struct Lost(AtomicBool);

    impl AnyRequest for Lost {
        fn poll(&self) -> Option<Result<Times>> {
            let fault = || Fault::new(Reason::Lost, "kernel hung");
            self.0.load(Ordering::Relaxed).then(|| Err(fault()))
        }

        fn wait(&self, _: Option<Duration>) -> Option<Result<Times>> {
            self.poll()
        }

        fn cancel(&self) -> Result<bool> {
            Ok(false)
        }
    }

    fn reason(owner: &Owner) -> Option<Reason> {
        let taken = owner.take(Some(Duration::ZERO)).expect("no thread holds it");
        taken.err().map(|fault| fault.reason)
    }

    #[test]
    fn a_thread_waits_for_a_hold_to_end() {
        let owner = Owner::default();
        let hold = owner.take(None).unwrap().unwrap();
        assert!(owner.take(Some(Duration::from_millis(1))).is_none());
        thread::scope(|scope| {
            let other = scope.spawn(|| owner.take(None).unwrap().is_ok());
            drop(hold);
            assert!(other.join().unwrap());
        });
        assert_eq!(reason(&owner), None);
    }

    #[test]
    fn a_request_keeps_the_memory_after_its_hold() {
        let (owner, request) = (Owner::default(), Arc::new(Lost::default()));
        let mut hold = owner.take(None).unwrap().unwrap();
        hold.begin(request.clone());
        assert_eq!(hold.ended().unwrap_err().reason, Reason::Busy);
        drop(hold);
        assert_eq!(reason(&owner), Some(Reason::Busy));
        request.0.store(true, Ordering::Relaxed);
        assert_eq!(reason(&owner), Some(Reason::Lost), "its kernels may still write");
    }
}
