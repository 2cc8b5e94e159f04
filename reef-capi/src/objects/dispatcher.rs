//! A dispatcher, and the clients that it makes.

use crate::fault::{Fault, Result};
use crate::handles::Kind;
use crate::objects::best_effort::BestEffort;
use crate::objects::client::{AnyClient, Client};
use crate::objects::device_id::DeviceId;
use crate::objects::real_time::RealTime;
use crate::status::REEF_CANCELLED;
use parking_lot::RwLock;
use reef::op::Operators;
use reef::{ClientConfig, Dispatcher as Typed, Stats};

/// A dispatcher of some device; `None` in answers: it was freed.
pub(crate) trait AnyDispatcher: Send + Sync {
    fn real_time(&self, priority: i32) -> Option<Result<Box<dyn AnyClient>>>;
    fn best_effort(&self, config: ClientConfig) -> Option<Result<Box<dyn AnyClient>>>;
    fn stats(&self) -> Option<Stats>;

    /// Ends it, once, and waits for what runs.
    fn close(&self);
}

/// Object behind the handle of a dispatcher.
pub(crate) struct Dispatcher {
    pub(crate) device: DeviceId,
    pub(crate) inner: Box<dyn AnyDispatcher>,
}

impl Kind for Dispatcher {
    const NAME: &'static str = "dispatcher";
}

impl Dispatcher {
    pub(crate) fn real_time(&self, priority: i32) -> Result<Client> {
        self.client(self.inner.real_time(priority))
    }

    pub(crate) fn best_effort(&self, config: ClientConfig) -> Result<Client> {
        self.client(self.inner.best_effort(config))
    }

    pub(crate) fn stats(&self) -> Result<Stats> {
        self.inner.stats().ok_or_else(gone)
    }

    fn client(&self, inner: Option<Result<Box<dyn AnyClient>>>) -> Result<Client> {
        Ok(Client { device: self.device, inner: inner.ok_or_else(gone)?? })
    }
}

fn gone() -> Fault {
    Fault::new(REEF_CANCELLED, "the dispatcher was freed")
}

/// A dispatcher of devices `D`; `None` once it was freed.
pub(crate) struct Running<D: Operators>(RwLock<Option<Typed<D>>>);

impl<D: Operators> Running<D> {
    pub(crate) fn new(dispatcher: Typed<D>) -> Self {
        Self(RwLock::new(Some(dispatcher)))
    }
}

impl<D: Operators> AnyDispatcher for Running<D> {
    fn real_time(&self, priority: i32) -> Option<Result<Box<dyn AnyClient>>> {
        let client = self.0.read().as_ref()?.real_time();
        Some(match client {
            Ok(client) => Ok(Box::new(RealTime::new(client.priority(priority)))),
            Err(error) => Err(error.into()),
        })
    }

    fn best_effort(&self, config: ClientConfig) -> Option<Result<Box<dyn AnyClient>>> {
        let client = self.0.read().as_ref()?.best_effort(config);
        Some(match client {
            Ok(client) => Ok(Box::new(BestEffort::new(client, config.queue.capacity))),
            Err(error) => Err(error.into()),
        })
    }

    fn stats(&self) -> Option<Stats> {
        self.0.read().as_ref().map(Typed::stats)
    }

    fn close(&self) {
        let dispatcher = self.0.write().take();
        drop(dispatcher); // without the lock
    }
}
