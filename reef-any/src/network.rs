//! A network on a device, with memory for one inference at a time.

use crate::device_id::DeviceId;
use crate::fault::{Fault, Result};
use crate::request::Request;
use parking_lot::{Mutex, MutexGuard};
use reef::models::{self, Model, Ports, Weights};
use reef::op::{Operators, Tensor};
use reef::{Command, Task};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Launches that best-effort work submits at once where the device has graphs: few, because what
/// was launched when it is preempted comes to nothing kernel by kernel.
const BE_GRAPH: usize = 8;

/// A network of some device.
pub(crate) trait AnyNetwork: Any + Send + Sync {
    /// Writes inputs from byte `offset` on.
    fn write(&self, offset: usize, data: &[u8]) -> Result<()>;

    /// Reads outputs from byte `offset` on.
    fn read(&self, offset: usize, data: &mut [u8]) -> Result<()>;

    fn ends(&self) -> &Ends;

    /// Another one with the same weights and memory of its own.
    fn instance(&self) -> Result<Box<dyn AnyNetwork>>;

    /// Type-erased network for the client, which knows its device's type.
    fn as_any(&self) -> &dyn Any;
}

/// A network on some device, with memory for one inference at a time.
pub struct Network {
    pub(crate) device: DeviceId,
    inner: Box<dyn AnyNetwork>,
    /// The newest request. Locked during work on the network's memory.
    request: Mutex<Option<Request>>,
}

impl fmt::Debug for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Network").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Network {
    pub(crate) fn new(device: DeviceId, inner: Box<dyn AnyNetwork>) -> Self {
        Self { device, inner, request: Mutex::default() }
    }

    /// Inputs, in the order in which [`write`](Self::write) has them.
    pub fn inputs(&self) -> &Ports {
        &self.inner.ends().inputs
    }

    /// Outputs, in the order in which [`read`](Self::read) has them.
    pub fn outputs(&self) -> &Ports {
        &self.inner.ends().outputs
    }

    /// Shapes of input and output of a network of pictures. `None`: it is one of tensors.
    pub fn pictures(&self) -> Option<[Tensor; 2]> {
        self.inner.ends().pictures
    }

    /// Makes another one with the same weights and memory of its own.
    ///
    /// # Errors
    ///
    /// `NoMemory`: the device's.
    pub fn instance(&self) -> Result<Self> {
        Ok(Self::new(self.device, self.inner.instance()?))
    }

    /// Writes inputs of the next request from byte `offset` on.
    ///
    /// # Errors
    ///
    /// `Busy`: a request is on its way; `Invalid`: it does not fit.
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        let _at_rest = self.at_rest()?;
        self.inner.write(offset, data)
    }

    /// Reads outputs of the last request that finished, from byte `offset` on.
    ///
    /// # Errors
    ///
    /// `Busy`: a request is on its way; `Invalid`: there are fewer.
    pub fn read(&self, offset: usize, data: &mut [u8]) -> Result<()> {
        let _at_rest = self.at_rest()?;
        self.inner.read(offset, data)
    }

    /// Returns whether no request is on its way.
    pub fn is_at_rest(&self) -> bool {
        self.at_rest().is_ok()
    }

    /// Starts a request with `submit`, unless one is on its way.
    pub(crate) fn start(
        &self,
        submit: impl FnOnce(&dyn AnyNetwork) -> Result<Request>,
    ) -> Result<Request> {
        let mut newest = self.at_rest()?;
        let request = submit(&*self.inner)?;
        *newest = Some(request.clone());
        Ok(request)
    }

    /// Its memory, which no request is using.
    fn at_rest(&self) -> Result<MutexGuard<'_, Option<Request>>> {
        let newest = self.request.lock();
        if newest.as_ref().is_none_or(|request| request.look().is_some()) {
            return Ok(newest);
        }
        Err(Fault::busy("a request of the network has not ended"))
    }
}

/// Inputs and outputs of a network.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    inputs: Ports,
    outputs: Ports,
    pictures: Option<[Tensor; 2]>,
}

impl Ends {
    pub(crate) fn of(model: &Model) -> Self {
        let pictures = model.picture().ok().map(|(it, _)| [*it.input(), *it.output()]);
        Self { inputs: model.inputs(), outputs: model.outputs(), pictures }
    }
}

/// A network of devices `D`, ready for either class.
pub(crate) struct LoadedNetwork<D: Operators> {
    weights: Weights<D>,
    ends: Ends,
    network: models::Network<D>,
    pub(crate) task: Task<D>,
    pub(crate) best_effort: Arc<[Command<D>]>,
}

impl<D: Operators> LoadedNetwork<D> {
    pub(crate) fn new(weights: Weights<D>, ends: Ends) -> Result<Self> {
        let network = weights.network()?;
        let task = Task::new(network.graphs(usize::MAX)?)?;
        let best_effort = network.graphs(BE_GRAPH)?;
        Ok(Self { weights, ends, network, task, best_effort })
    }
}

impl<D: Operators> AnyNetwork for LoadedNetwork<D> {
    fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        Ok(self.network.stage_bytes(offset, data)?)
    }

    fn read(&self, offset: usize, data: &mut [u8]) -> Result<()> {
        Ok(self.network.read_staged(offset, data)?)
    }

    fn ends(&self) -> &Ends {
        &self.ends
    }

    fn instance(&self) -> Result<Box<dyn AnyNetwork>> {
        Ok(Box::new(Self::new(self.weights.clone(), self.ends.clone())?))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The network as one of devices `D`.
pub(crate) fn of<D: Operators>(network: &dyn AnyNetwork) -> Result<&LoadedNetwork<D>> {
    let network = network.as_any().downcast_ref();
    network.ok_or_else(|| Fault::invalid(format!("the network is on no {}", D::NAME)))
}
