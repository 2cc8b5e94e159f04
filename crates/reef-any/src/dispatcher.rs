//! A dispatcher, and the clients that it makes.

use crate::best_effort::BestEffort;
use crate::client::{AnyClient, Client};
use crate::device_id::DeviceId;
use crate::fault::{Fault, Reason, Result};
use crate::real_time::RealTime;
use crate::shares::{Grant, Shares};
use crate::trace::{Recorded, Requests};
use parking_lot::{Mutex, RwLock};
use reef::op::Operators;
use reef::{Account, ClientConfig, Dispatcher as Typed, Stats};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A dispatcher of some device; `None` in answers: it was freed.
pub(crate) trait AnyDispatcher: Send + Sync {
    fn real_time(&self, config: ClientConfig) -> Option<Result<Box<dyn AnyClient>>>;
    fn best_effort(&self, config: ClientConfig) -> Option<Result<Box<dyn AnyClient>>>;
    fn stats(&self) -> Option<Stats>;

    /// Starts to record.
    fn begin_trace(&self) -> Option<Result<()>>;

    /// Ends what was recorded, and returns a file for Perfetto.
    fn end_trace(&self) -> Option<Result<Vec<u8>>>;

    /// Ends it, once, and waits for what runs.
    fn close(&self);
}

/// A dispatcher of some device.
pub struct Dispatcher {
    pub(crate) device: DeviceId,
    pub(crate) inner: Box<dyn AnyDispatcher>,
    /// If real-time clients may have budgets.
    pub(crate) shares: Option<Arc<Shares>>,
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Dispatcher").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Dispatcher {
    /// Opens a real-time client. A higher priority goes first under the scheduler `priority`.
    ///
    /// # Errors
    ///
    /// `Cancelled`: the dispatcher was closed.
    pub fn real_time(&self, priority: i32) -> Result<Client> {
        self.real_time_with(ClientConfig::default().priority(priority))
    }

    /// Opens a real-time client with the priority and the rate of `config`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`real_time`](Self::real_time); `Invalid` if there is a rate and the
    /// dispatcher has no reserve; `Busy` if the budgets of other clients leave less.
    pub fn real_time_with(&self, config: ClientConfig) -> Result<Client> {
        let grant = match (config.rate, &self.shares) {
            (None, _) => None,
            (Some(rate), Some(shares)) => Some(shares.grant(rate)?),
            (Some(rate), None) => {
                let text =
                    format!("a rate of {rate}: the device must be opened with a reserve, got none");
                return Err(Fault::invalid(text));
            }
        };
        self.client(self.inner.real_time(config), grant)
    }

    /// Opens a best-effort client.
    ///
    /// # Errors
    ///
    /// `Cancelled`: the dispatcher was closed; those of the device.
    pub fn best_effort(&self, config: ClientConfig) -> Result<Client> {
        self.client(self.inner.best_effort(config), None)
    }

    /// Counters since its start.
    ///
    /// # Errors
    ///
    /// `Cancelled`: it was closed.
    pub fn stats(&self) -> Result<Stats> {
        self.inner.stats().ok_or_else(gone)
    }

    /// Starts to record what runs when.
    ///
    /// # Errors
    ///
    /// `Cancelled`: it was closed; `Busy`: another trace is in progress.
    pub fn begin_trace(&self) -> Result<()> {
        self.inner.begin_trace().ok_or_else(gone)?
    }

    /// Stops recording, and returns a file for Perfetto: blocks where the device notes them,
    /// preemptions, and requests whose end was seen.
    ///
    /// # Errors
    ///
    /// `Cancelled`: it was closed; `Invalid`: no trace is in progress.
    pub fn end_trace(&self) -> Result<Vec<u8>> {
        self.inner.end_trace().ok_or_else(gone)?
    }

    /// Ends it, and waits for what runs. Its requests that the device hasn't got are cancelled.
    pub fn close(&self) {
        self.inner.close();
    }

    fn client(
        &self,
        inner: Option<Result<Box<dyn AnyClient>>>,
        grant: Option<Grant>,
    ) -> Result<Client> {
        let (device, grant) = (self.device, Mutex::new(grant));
        Ok(Client { device, inner: inner.ok_or_else(gone)??, grant })
    }
}

fn gone() -> Fault {
    Fault::new(Reason::Cancelled, "the dispatcher was freed")
}

/// A dispatcher of devices `D`; `None` once it was freed.
pub(crate) struct Running<D: Operators> {
    device: D,
    dispatcher: RwLock<Option<Typed<D>>>,
    requests: Arc<Requests>,
    /// Beginning of the trace, on the device's clock.
    begin: Mutex<Duration>,
}

impl<D: Operators> Running<D> {
    pub(crate) fn new(device: &D, dispatcher: Typed<D>) -> Self {
        let (requests, begin) = Default::default();
        let dispatcher = RwLock::new(Some(dispatcher));
        Self { device: device.clone(), dispatcher, requests, begin }
    }
}

impl<D: Operators> AnyDispatcher for Running<D> {
    fn real_time(&self, config: ClientConfig) -> Option<Result<Box<dyn AnyClient>>> {
        let client = self.dispatcher.read().as_ref()?.real_time();
        Some(match client {
            Ok(client) => {
                let mut client = client.priority(config.priority);
                client.charge(&Account::new(config.rate));
                Ok(Box::new(RealTime::new(client, self.requests.clone())))
            }
            Err(error) => Err(error.into()),
        })
    }

    fn best_effort(&self, config: ClientConfig) -> Option<Result<Box<dyn AnyClient>>> {
        let client = self.dispatcher.read().as_ref()?.best_effort(config);
        Some(match client {
            Ok(client) => {
                let (device, requests) = (self.device.clone(), self.requests.clone());
                let capacity = config.queue.capacity;
                Ok(Box::new(BestEffort::new(client, capacity, device, requests)))
            }
            Err(error) => Err(error.into()),
        })
    }

    fn stats(&self) -> Option<Stats> {
        self.dispatcher.read().as_ref().map(Typed::stats)
    }

    fn begin_trace(&self) -> Option<Result<()>> {
        let dispatcher = self.dispatcher.read();
        let dispatcher = dispatcher.as_ref()?;
        if let Err(fault) = self.requests.begin() {
            return Some(Err(fault));
        }
        self.device.set_trace(true); // where blocks can't be seen, the rest can
        dispatcher.set_trace(true);
        *self.begin.lock() = self.device.clock();
        Some(Ok(()))
    }

    fn end_trace(&self) -> Option<Result<Vec<u8>>> {
        let dispatcher = self.dispatcher.read();
        let dispatcher = dispatcher.as_ref()?;
        let Some(requests) = self.requests.end() else {
            return Some(Err(Fault::invalid("no trace of the device is in progress")));
        };
        let (spans, preemptions) = (self.device.take_trace(), dispatcher.take_trace());
        self.device.set_trace(false);
        dispatcher.set_trace(false);
        let (device, begin) = (self.device.info().name, *self.begin.lock());
        Some(Ok(Recorded { device, begin, spans, preemptions, requests }.file()))
    }

    fn close(&self) {
        let dispatcher = self.dispatcher.write().take();
        drop(dispatcher); // without the lock
    }
}
