//! A client of a dispatcher, of either class.

use crate::device_id::DeviceId;
use crate::fault::{Fault, Reason, Result};
use crate::memory::Side;
use crate::network::{AnyNetwork, Network};
use crate::request::Request;
use crate::shares::Grant;
use crate::turn::Turn;
use parking_lot::Mutex;
use std::fmt;
use std::time::Duration;

/// Operations of a client of either class.
pub(crate) trait AnyClient: Send + Sync {
    /// Submits one inference of `network`, which belongs to the same device and is at rest, from
    /// its inputs of this side to its outputs of this side.
    fn submit(
        &self,
        network: &dyn AnyNetwork,
        side: Side,
        deadline: Option<Duration>,
    ) -> Result<Request>;

    /// Device time that it has used, its requests that have ended there, and those that started
    /// when its budget was used up; the latter two of real-time clients.
    fn usage(&self) -> Option<Usage>;

    /// Ends it, once. Real-time requests go on; best-effort ones are cancelled, and what runs of
    /// them is waited for.
    fn close(&self);
}

/// A client of a dispatcher, of either class.
pub struct Client {
    pub(crate) device: DeviceId,
    pub(crate) inner: Box<dyn AnyClient>,
    /// Until it is closed.
    pub(crate) grant: Mutex<Option<Grant>>,
}

/// Use of a device by a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Device time that its requests took.
    pub served: Duration,
    /// Requests that have ended there; of real-time clients.
    pub requests: Option<u64>,
    /// Requests among them that started when the budget was used up; of real-time clients.
    pub late: Option<u64>,
}

impl fmt::Debug for Client {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Client").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Client {
    /// Submits one inference of the inputs that were written last, unless a request of the network
    /// is on its way. Waits while another thread has the network's memory.
    ///
    /// # Errors
    ///
    /// `Invalid`: the network is on another device; `Busy`: one is on its way, or the queue is
    /// full; `Cancelled`: the client was closed.
    pub fn submit(&self, network: &Network, deadline: Option<Duration>) -> Result<Request> {
        self.submit_in(&mut Turn::wait(network)?, Side::Host, deadline)
    }

    /// As [`submit`](Self::submit) within a turn, from inputs of this side to outputs of this side.
    /// One of the host's side leaves its outputs on the device, too.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`submit`](Self::submit); an error of the device, which prepares a
    /// side for its first request.
    pub fn submit_in(
        &self,
        turn: &mut Turn<'_>,
        side: Side,
        deadline: Option<Duration>,
    ) -> Result<Request> {
        if self.device != turn.network().device {
            return Err(Fault::invalid("the network is on another device than the client"));
        }
        turn.start(|network| self.inner.submit(network, side, deadline))
    }

    /// Returns its use of the device so far.
    ///
    /// # Errors
    ///
    /// `Cancelled`: the client was closed.
    pub fn usage(&self) -> Result<Usage> {
        self.inner.usage().ok_or_else(gone)
    }

    /// Ends it. Real-time requests go on; best-effort ones are cancelled, and what runs of them is
    /// waited for.
    pub fn close(&self) {
        self.inner.close();
        drop(self.grant.lock().take());
    }
}

/// Returns the error of a call for a client that was freed meanwhile.
pub(crate) fn gone() -> Fault {
    Fault::new(Reason::Cancelled, "the client was freed")
}
