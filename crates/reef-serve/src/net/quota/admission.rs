//! Permits for connections, requests and unsent answers: a bounded number, and none once closed.

use crate::error::{Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counter of permits in use.
#[derive(Debug)]
pub(crate) struct Admission {
    what: &'static str,
    max: usize,
    in_use: AtomicUsize,
    closed: AtomicBool,
}

impl Admission {
    pub(crate) fn new(what: &'static str, max: usize) -> Arc<Self> {
        let (in_use, closed) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Self { what, max, in_use, closed })
    }

    /// Takes a permit, which is returned when it is dropped.
    ///
    /// # Errors
    ///
    /// `Exhausted` if all permits are in use; `Unavailable` after [`close`](Self::close).
    pub(crate) fn try_acquire(self: &Arc<Self>) -> Result<Permit> {
        let before = self.in_use.fetch_add(1, Ordering::SeqCst);
        let permit = Permit(self.clone()); // counts back if it is dropped below
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::Unavailable("the daemon is shutting down".into()));
        }
        if before >= self.max {
            let text = format!("open {} must be at most {}", self.what, self.max);
            return Err(Error::Exhausted(text));
        }
        Ok(permit)
    }

    /// Refuses all permits from now on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Number of permits in use.
    pub(crate) fn in_use(&self) -> usize {
        self.in_use.load(Ordering::SeqCst)
    }
}

/// A permit, returned when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Admission>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.in_use.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Permit of a call whose answers are not yet in the socket. The daemon's end waits for it.
///
/// It is returned when the body of the answers and all parts that it has passed on are dropped;
/// that of a stream also between requests. A stream has another one for its next request if its
/// client has not read the last part then.
#[derive(Debug, Clone, Default)]
pub(crate) struct AnswerPermit(Arc<Mutex<UnsentAnswer>>);

#[derive(Debug, Default)]
struct UnsentAnswer {
    permit: Option<Arc<Permit>>,
    /// True if the body has all answers to the requests so far.
    is_over: bool,
}

impl AnswerPermit {
    /// Notes a request that is answered. Must be called before its slot is released.
    pub(crate) fn begin(&self, unsent: &Arc<Admission>) {
        let mut answer = self.0.lock();
        answer.is_over = false;
        if answer.permit.is_none() {
            answer.permit = unsent.try_acquire().ok().map(Arc::new);
        }
    }

    /// Notes that the body has all answers to the requests so far.
    pub(crate) fn end(&self) {
        self.0.lock().is_over = true;
    }

    /// Returns the permit for a part that the body passes on, and keeps it if more parts follow.
    pub(crate) fn pass_on(&self) -> Option<Arc<Permit>> {
        let mut answer = self.0.lock();
        if answer.is_over { answer.permit.take() } else { answer.permit.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permit_is_returned_on_drop_and_refused_after_close() {
        let admission = Admission::new("requests", 2);
        let (a, _b) = (admission.try_acquire().unwrap(), admission.try_acquire().unwrap());
        let said = admission.try_acquire().unwrap_err();
        assert_eq!(said, Error::Exhausted("open requests must be at most 2".into()));
        assert_eq!(admission.in_use(), 2);
        drop(a);
        let _c = admission.try_acquire().unwrap();
        admission.close();
        assert!(matches!(admission.try_acquire(), Err(Error::Unavailable(_))));
        assert_eq!(admission.in_use(), 2);
    }

    #[test]
    fn answer_permit_of_a_stream_is_returned_between_requests() {
        let unsent = Admission::new("unsent answers", usize::MAX);
        let permit = AnswerPermit::default();
        assert!(permit.pass_on().is_none(), "no request has begun");
        permit.begin(&unsent);
        let part = permit.pass_on();
        permit.begin(&unsent);
        assert_eq!(unsent.in_use(), 1, "a call has one");
        permit.end();
        let last = permit.pass_on();
        drop(part);
        assert_eq!(unsent.in_use(), 1, "the last part is not sent");
        drop(last);
        assert_eq!(unsent.in_use(), 0, "the stream waits for a request");
        permit.begin(&unsent);
        assert_eq!(unsent.in_use(), 1);
        drop(permit);
        assert_eq!(unsent.in_use(), 0);
    }
}
