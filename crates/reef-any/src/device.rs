//! An open device.

use crate::device_id::DeviceId;
use crate::dispatcher::{Dispatcher, Running};
use crate::fault::{Fault, Reason, Result};
use crate::network::{Ends, LoadedNetwork, Network};
use crate::shares::Shares;
use crate::transfers::location_of;
use reef::models::Model;
use reef::op::Operators;
use reef::scheduler::{self, RtShare, Scheduler};
use reef::{DeviceInfo, Visit, with_device};
use std::fmt;
use std::sync::Arc;

/// A device of some backend.
trait AnyDevice: Send + Sync {
    fn info(&self) -> DeviceInfo;
    fn load(&self, id: DeviceId, model: &Model) -> Result<Network>;
    fn dispatcher(
        &self,
        id: DeviceId,
        scheduler: Box<dyn Scheduler>,
        shares: Option<Arc<Shares>>,
    ) -> Result<Dispatcher>;
}

/// An open device of some backend.
pub struct Device {
    id: DeviceId,
    inner: Box<dyn AnyDevice>,
}

impl fmt::Debug for Device {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Device").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Device {
    /// Opens the device of this name; `auto` is the first GPU, else the CPU.
    ///
    /// # Errors
    ///
    /// `NotFound`, `Invalid`: the name; those of the backend.
    pub fn open(name: &str) -> Result<Self> {
        Ok(Self { id: DeviceId::next(), inner: with_device(name, Erase)? })
    }

    /// Facts of the device.
    pub fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    /// Loads a network, with constants of its own.
    ///
    /// # Errors
    ///
    /// `NoMemory`, `Unsupported`: the device's; `File`: the network brings kernels of its own.
    pub fn load(&self, model: &Model) -> Result<Network> {
        self.inner.load(self.id, model)
    }

    /// Starts a dispatcher with the scheduler of this name.
    ///
    /// # Errors
    ///
    /// `NotFound`: the name; `Unsupported`: it preempts more deeply than the device can.
    pub fn dispatcher(&self, scheduler: &str) -> Result<Dispatcher> {
        self.dispatcher_with(scheduler, None)
    }

    /// As [`dispatcher`](Self::dispatcher). With a reserve, real-time clients take turns and may
    /// have budgets, and best-effort work keeps that share of the device, from 0 to less than 1:
    /// see `RtShare`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`dispatcher`](Self::dispatcher); `Invalid` for the reserve.
    pub fn dispatcher_with(&self, scheduler: &str, reserve: Option<f64>) -> Result<Dispatcher> {
        let shares = reserve.map(Shares::new).transpose()?;
        let found = dispatcher_scheduler(scheduler)?;
        let found = match reserve {
            Some(reserve) => Box::new(RtShare::new(found, reserve)),
            None => found,
        };
        self.inner.dispatcher(self.id, found, shares)
    }
}

/// The scheduler of this name.
///
/// # Errors
///
/// `NotFound` names those that there are.
pub(crate) fn dispatcher_scheduler(name: &str) -> Result<Box<dyn Scheduler>> {
    scheduler::by_name(name)
        .ok_or_else(|| Fault::new(Reason::NotFound, scheduler::no_scheduler(name)))
}

struct Erase;

impl Visit for Erase {
    type Output = Box<dyn AnyDevice>;

    fn visit<D: Operators>(self, device: D) -> Self::Output {
        Box::new(Typed(device))
    }
}

struct Typed<D: Operators>(D);

impl<D: Operators> AnyDevice for Typed<D> {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }

    fn load(&self, id: DeviceId, model: &Model) -> Result<Network> {
        let ends = Ends::of(model, location_of(&self.0));
        let loaded = LoadedNetwork::new(&self.0, model.weights(&self.0)?, ends)?;
        Ok(Network::new(id, Box::new(loaded)))
    }

    fn dispatcher(
        &self,
        id: DeviceId,
        scheduler: Box<dyn Scheduler>,
        shares: Option<Arc<Shares>>,
    ) -> Result<Dispatcher> {
        let running = Running::new(&self.0, reef::Dispatcher::start(&self.0, scheduler)?);
        Ok(Dispatcher { device: id, inner: Box::new(running), shares })
    }
}
