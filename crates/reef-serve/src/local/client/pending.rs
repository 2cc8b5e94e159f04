//! Wait for an answer without the client.

use crate::local::segment::Segment;
use std::time::Duration;

/// The oldest open request of a client. A thread waits for it while others use the client.
#[derive(Debug)]
pub struct Pending {
    pub(super) segment: Segment,
    pub(super) n: u32,
    pub(super) spin: Duration,
}

impl Pending {
    /// Waits for at most `limit`, and returns whether the request is answered. May return early.
    /// A daemon that has ended does not end the wait:
    /// [`Client::try_receive`](super::connection::Client::try_receive) notices it.
    ///
    /// One thread of a client waits at a time. A second one may sleep for all of its limit.
    pub fn wait(&self, limit: Duration) -> bool {
        self.segment.answers().wait(self.n, self.spin.min(limit), limit)
    }
}
