//! Permits for connections and open requests: a bounded number, and none once it is closed.

use crate::error::{Error, Result};
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
}
