//! Counts who is inside, lets in as many as are allowed, and closes.

use crate::error::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counts who is inside: connections, or open requests.
#[derive(Debug)]
pub(crate) struct Door {
    what: &'static str,
    most: usize,
    inside: AtomicUsize,
    closed: AtomicBool,
}

impl Door {
    pub(crate) fn new(what: &'static str, most: usize) -> Arc<Self> {
        let (inside, closed) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Self { what, most, inside, closed })
    }

    /// Lets one in, until the ticket is dropped.
    ///
    /// # Errors
    ///
    /// `Exhausted` if all places are taken; `Unavailable` if the door is closed.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Inside> {
        let before = self.inside.fetch_add(1, Ordering::SeqCst);
        let ticket = Inside(self.clone()); // counts back if it is dropped below
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::Unavailable("the daemon is shutting down".into()));
        }
        if before >= self.most {
            let text = format!("{} {} are open already", self.most, self.what);
            return Err(Error::Exhausted(text));
        }
        Ok(ticket)
    }

    /// Lets nobody in any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// How many are inside.
    pub(crate) fn inside(&self) -> usize {
        self.inside.load(Ordering::SeqCst)
    }
}

/// Somebody inside.
#[derive(Debug)]
pub(crate) struct Inside(Arc<Door>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_and_given_back() {
        let door = Door::new("requests", 2);
        let (a, _b) = (door.enter().unwrap(), door.enter().unwrap());
        let said = door.enter().unwrap_err();
        assert_eq!(said, Error::Exhausted("2 requests are open already".into()));
        assert_eq!(door.inside(), 2);
        drop(a);
        let _c = door.enter().unwrap();
        door.close();
        assert!(matches!(door.enter(), Err(Error::Unavailable(_))));
        assert_eq!(door.inside(), 2);
    }
}
