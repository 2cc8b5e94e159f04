//! A dispatcher, and the clients that it makes.

use crate::best_effort::BestEffort;
use crate::client::{AnyClient, Client};
use crate::device_id::DeviceId;
use crate::fault::{Fault, Reason, Result};
use crate::real_time::RealTime;
use parking_lot::RwLock;
use reef::op::Operators;
use reef::{ClientConfig, Dispatcher as Typed, Stats};
use std::fmt;

/// A dispatcher of some device; `None` in answers: it was freed.
pub(crate) trait AnyDispatcher: Send + Sync {
    fn real_time(&self, priority: i32) -> Option<Result<Box<dyn AnyClient>>>;
    fn best_effort(&self, config: ClientConfig) -> Option<Result<Box<dyn AnyClient>>>;
    fn stats(&self) -> Option<Stats>;

    /// Ends it, once, and waits for what runs.
    fn close(&self);
}

/// A dispatcher of some device.
pub struct Dispatcher {
    pub(crate) device: DeviceId,
    pub(crate) inner: Box<dyn AnyDispatcher>,
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Dispatcher").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Dispatcher {
    /// Opens a real-time client. A higher priority goes first.
    ///
    /// # Errors
    ///
    /// `Cancelled`: the dispatcher was closed.
    pub fn real_time(&self, priority: i32) -> Result<Client> {
        self.client(self.inner.real_time(priority))
    }

    /// Opens a best-effort client.
    ///
    /// # Errors
    ///
    /// `Cancelled`: the dispatcher was closed; those of the device.
    pub fn best_effort(&self, config: ClientConfig) -> Result<Client> {
        self.client(self.inner.best_effort(config))
    }

    /// Counters since its start.
    ///
    /// # Errors
    ///
    /// `Cancelled`: it was closed.
    pub fn stats(&self) -> Result<Stats> {
        self.inner.stats().ok_or_else(gone)
    }

    /// Ends it, and waits for what runs. Its requests that the device hasn't got are cancelled.
    pub fn close(&self) {
        self.inner.close();
    }

    fn client(&self, inner: Option<Result<Box<dyn AnyClient>>>) -> Result<Client> {
        Ok(Client { device: self.device, inner: inner.ok_or_else(gone)?? })
    }
}

fn gone() -> Fault {
    Fault::new(Reason::Cancelled, "the dispatcher was freed")
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
