//! A client of a dispatcher, of either class.

use crate::fault::{Fault, Result};
use crate::handles::Kind;
use crate::objects::device_id::DeviceId;
use crate::objects::network::{AnyNetwork, Network};
use crate::objects::request::Request;
use crate::status::REEF_CANCELLED;
use std::time::Duration;

/// Operations of a client of either class.
pub(crate) trait AnyClient: Send + Sync {
    /// Submits one inference of `network`, which belongs to the same device and is at rest.
    fn submit(&self, network: &dyn AnyNetwork, deadline: Option<Duration>) -> Result<Request>;

    /// Ends it, once. What waits is cancelled, and best-effort work that runs is waited for.
    fn close(&self);
}

/// Object behind the handle of a client.
pub(crate) struct Client {
    pub(crate) device: DeviceId,
    pub(crate) inner: Box<dyn AnyClient>,
}

impl Kind for Client {
    const NAME: &'static str = "client";
}

impl Client {
    /// Submits one inference, unless another one of the network is on its way.
    pub(crate) fn submit(&self, network: &Network, deadline: Option<Duration>) -> Result<Request> {
        if self.device != network.device {
            return Err(Fault::invalid("the network is on another device than the client"));
        }
        network.start(|inner| self.inner.submit(inner, deadline))
    }
}

/// Error of a call for a client that was freed meanwhile.
pub(crate) fn gone() -> Fault {
    Fault::new(REEF_CANCELLED, "the client was freed")
}
