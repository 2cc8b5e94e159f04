//! A network on a device, with memory for one inference at a time.

use crate::fault::{Fault, Result};
use crate::handles::Kind;
use crate::objects::device_id::DeviceId;
use crate::objects::request::Request;
use parking_lot::{Mutex, MutexGuard};
use reef::models::{self, Weights};
use reef::op::{Operators, Tensor};
use reef::{Command, Task};
use std::any::Any;
use std::sync::Arc;

/// Launches that best-effort work submits at once where the device has graphs: few, because what
/// was launched when it is preempted comes to nothing kernel by kernel.
const BE_GRAPH: usize = 8;

/// A network of some device.
pub(crate) trait AnyNetwork: Any + Send + Sync {
    /// Writes the whole input, as bytes of f32.
    fn write(&self, input: &[u8]) -> Result<()>;

    /// Reads the whole output, as bytes of f32.
    fn read(&self, output: &mut [u8]) -> Result<()>;

    /// Shapes of input and output.
    fn shapes(&self) -> [Tensor; 2];

    /// Another one with the same weights and memory of its own.
    fn instance(&self) -> Result<Box<dyn AnyNetwork>>;

    /// Type-erased network for the client, which knows its device's type.
    fn as_any(&self) -> &dyn Any;
}

/// Object behind the handle of a network.
pub(crate) struct Network {
    pub(crate) device: DeviceId,
    inner: Box<dyn AnyNetwork>,
    /// The newest request. Locked during work on the network's memory.
    request: Mutex<Option<Request>>,
}

impl Kind for Network {
    const NAME: &'static str = "network";
}

impl Network {
    pub(crate) fn new(device: DeviceId, inner: Box<dyn AnyNetwork>) -> Self {
        Self { device, inner, request: Mutex::default() }
    }

    pub(crate) fn shapes(&self) -> [Tensor; 2] {
        self.inner.shapes()
    }

    pub(crate) fn instance(&self) -> Result<Self> {
        Ok(Self::new(self.device, self.inner.instance()?))
    }

    pub(crate) fn write(&self, input: &[u8]) -> Result<()> {
        let _at_rest = self.at_rest()?;
        self.inner.write(input)
    }

    pub(crate) fn read(&self, output: &mut [u8]) -> Result<()> {
        let _at_rest = self.at_rest()?;
        self.inner.read(output)
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

/// A network of devices `D`, ready for either class.
pub(crate) struct LoadedNetwork<D: Operators> {
    weights: Weights<D>,
    shapes: [Tensor; 2],
    network: models::Network<D>,
    pub(crate) task: Task<D>,
    pub(crate) best_effort: Arc<[Command<D>]>,
}

impl<D: Operators> LoadedNetwork<D> {
    pub(crate) fn new(weights: Weights<D>, shapes: [Tensor; 2]) -> Result<Self> {
        let network = weights.network()?;
        let task = Task::new(network.graphs(usize::MAX)?)?;
        let best_effort = network.graphs(BE_GRAPH)?;
        Ok(Self { weights, shapes, network, task, best_effort })
    }
}

impl<D: Operators> AnyNetwork for LoadedNetwork<D> {
    fn write(&self, input: &[u8]) -> Result<()> {
        Ok(self.network.stage_bytes(0, input)?)
    }

    fn read(&self, output: &mut [u8]) -> Result<()> {
        Ok(self.network.read_staged(0, output)?)
    }

    fn shapes(&self) -> [Tensor; 2] {
        self.shapes
    }

    fn instance(&self) -> Result<Box<dyn AnyNetwork>> {
        Ok(Box::new(Self::new(self.weights.clone(), self.shapes)?))
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
