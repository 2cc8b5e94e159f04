//! A submitted inference.

use crate::fault::Result;
use std::time::Duration;

/// When a request was where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Time from submission until its first command could start; real-time alone.
    pub delay: Option<Duration>,
    /// Time from then until its last command ended; real-time alone.
    pub device: Option<Duration>,
    /// Time from submission until its end was seen.
    pub total: Duration,
}

/// A request of either class of clients.
pub trait AnyRequest: Send + Sync {
    /// Result of the request, or `None` if it hasn't ended. Doesn't block.
    fn poll(&self) -> Option<Result<Times>>;

    /// Like [`poll`](Self::poll), after waiting for as long as `limit`, or without one.
    fn wait(&self, limit: Option<Duration>) -> Option<Result<Times>>;

    /// Takes back what the device hasn't got. Returns whether there was such a thing.
    ///
    /// # Errors
    ///
    /// `Unsupported`: a best-effort request ends with its client.
    fn cancel(&self) -> Result<bool>;
}

/// A request, which any thread may look at.
pub type Request = std::sync::Arc<dyn AnyRequest>;
