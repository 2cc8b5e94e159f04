//! A submitted inference.

use crate::fault::Result;
use crate::handles::Kind;
use std::time::Duration;

/// When a request was where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    /// Time from submission until its first command could start; real-time alone.
    pub(crate) delay: Option<Duration>,
    /// Time from then until its last command ended; real-time alone.
    pub(crate) device: Option<Duration>,
    /// Time from submission until its end was seen.
    pub(crate) total: Duration,
}

/// A request of either class of clients.
pub(crate) trait AnyRequest: Send + Sync {
    /// Result of the request, or `None` if it hasn't ended. Doesn't block.
    fn look(&self) -> Option<Result<Times>>;

    /// Like [`look`](Self::look), after waiting for as long as `limit`, or without one.
    fn wait(&self, limit: Option<Duration>) -> Option<Result<Times>>;

    /// Takes back what the device hasn't got: whether there was such a thing.
    fn cancel(&self) -> Result<bool>;
}

/// Object behind the handle of a request.
pub(crate) type Request = std::sync::Arc<dyn AnyRequest>;

impl Kind for Request {
    const NAME: &'static str = "request";
}
