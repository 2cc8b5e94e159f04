//! A network on a device, with memory for one inference at a time.

use crate::device_id::DeviceId;
use crate::fault::{Fault, Reason, Result};
use crate::memory::{End, Memory, MemoryLocation, Side};
use crate::owner::Owner;
use crate::transfers::{self, AnyTransfers};
use reef::models::{self, Model, Ports, Weights};
use reef::op::{Operators, Tensor};
use reef::{Command, Task};
use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Launches that best-effort work submits at once where the device has graphs: few, because what
/// was launched when it is preempted comes to nothing kernel by kernel.
pub(crate) const BE_GRAPH: usize = 8;

/// A network of some device.
pub(crate) trait AnyNetwork: Any + Send + Sync {
    /// Writes inputs from byte `offset` on.
    fn write(&self, offset: usize, data: &[u8]) -> Result<()>;

    /// Reads outputs from byte `offset` on.
    fn read(&self, offset: usize, data: &mut [u8]) -> Result<()>;

    fn ends(&self) -> &Ends;

    /// Memory of all inputs, or of all outputs.
    fn memory(&self, end: End, side: Side) -> &Memory;

    /// Memory of the device.
    fn alloc(&self, bytes: usize) -> Result<Memory>;

    /// Stream for copies from and to memory of other libraries.
    fn transfers(&self) -> Result<&dyn AnyTransfers>;

    /// Another one with the same weights and memory of its own.
    fn instance(&self) -> Result<Box<dyn AnyNetwork>>;

    /// Loads the network at other sizes, on its device.
    fn resized(&self, model: &Model) -> Result<Box<dyn AnyNetwork>>;

    /// Type-erased network for the client, which knows its device's type.
    fn as_any(&self) -> &dyn Any;
}

/// A network on some device, with memory for one inference at a time.
pub struct Network {
    pub(crate) device: DeviceId,
    pub(crate) inner: Box<dyn AnyNetwork>,
    pub(crate) owner: Owner,
}

impl fmt::Debug for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Network").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Network {
    pub(crate) fn new(device: DeviceId, inner: Box<dyn AnyNetwork>) -> Self {
        Self { device, inner, owner: Owner::default() }
    }

    /// Inputs, in the order in which [`Turn::write`](crate::Turn::write) has them.
    pub fn inputs(&self) -> &Ports {
        &self.inner.ends().inputs
    }

    /// Outputs, in the order in which [`Turn::read`](crate::Turn::read) has them.
    pub fn outputs(&self) -> &Ports {
        &self.inner.ends().outputs
    }

    /// Shapes of input and output of a network of images. `None`: it is one of tensors.
    pub fn images(&self) -> Option<[Tensor; 2]> {
        self.inner.ends().images
    }

    /// Returns whether no thread has the memory, and no request.
    pub fn is_at_rest(&self) -> bool {
        matches!(self.owner.take(Some(Duration::ZERO)), Some(Ok(_)))
    }

    /// Returns whether the device lost its last request, and may write its memory at any time.
    pub fn is_lost(&self) -> bool {
        let taken = self.owner.take(Some(Duration::ZERO));
        taken.is_some_and(|taken| taken.is_err_and(|fault| fault.reason == Reason::Lost))
    }

    /// Makes another one with the same weights and memory of its own.
    ///
    /// # Errors
    ///
    /// `NoMemory`: the device's.
    pub fn instance(&self) -> Result<Self> {
        Ok(Self::new(self.device, self.inner.instance()?))
    }

    /// Loads the same network at other sizes, on the same device. Constants that are the same are
    /// not brought there again.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::load`](crate::Device::load).
    pub fn resized(&self, model: &Model) -> Result<Self> {
        Ok(Self::new(self.device, self.inner.resized(model)?))
    }

    /// Location of the memory on the device.
    pub fn location(&self) -> MemoryLocation {
        self.inner.ends().location
    }

    /// Memory of all inputs, or of all outputs, as [`inputs`](Self::inputs) and
    /// [`outputs`](Self::outputs) lay them out. Requests read and write it.
    pub fn memory(&self, end: End, side: Side) -> &Memory {
        self.inner.memory(end, side)
    }

    /// Allocates zeroed memory of the device.
    ///
    /// # Errors
    ///
    /// `NoMemory`: the device's.
    pub fn alloc(&self, bytes: usize) -> Result<Memory> {
        self.inner.alloc(bytes)
    }

    /// Handle of a stream, which other libraries let wait for their work on what they hand over.
    ///
    /// # Errors
    ///
    /// `Unsupported`: other libraries can't use the device's memory in place; an error of the
    /// device.
    pub fn stream(&self) -> Result<u64> {
        Ok(self.inner.transfers()?.handle())
    }

    /// Returns whether what [`stream`](Self::stream) waits for has ended. Doesn't block.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`stream`](Self::stream).
    pub fn has_arrived(&self) -> Result<bool> {
        self.inner.transfers()?.is_idle()
    }

    /// Returns whether all work in the device's default stream has ended. Doesn't block.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`stream`](Self::stream).
    pub fn default_has_ended(&self) -> Result<bool> {
        self.inner.transfers()?.default_is_idle()
    }
}

/// Inputs and outputs of a network.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    location: MemoryLocation,
    inputs: Ports,
    outputs: Ports,
    images: Option<[Tensor; 2]>,
}

impl Ends {
    pub(crate) fn of(model: &Model, location: MemoryLocation) -> Self {
        let images = model.image().ok().map(|(it, _)| [*it.input(), *it.output()]);
        Self { location, inputs: model.inputs(), outputs: model.outputs(), images }
    }
}

/// A network of devices `D`, ready for either class.
pub(crate) struct LoadedNetwork<D: Operators> {
    device: D,
    weights: Weights<D>,
    ends: Ends,
    network: models::Network<D>,
    host: Work<D>,
    /// From the inputs on the device to the outputs there; made for the first request.
    on_device: OnceLock<Work<D>>,
    /// Of the inputs and of the outputs, on the host and on the device.
    memory: [[Memory; 2]; 2],
    transfers: OnceLock<Box<dyn AnyTransfers>>,
}

/// One inference, for either class.
pub(crate) struct Work<D: Operators> {
    pub(crate) task: Task<D>,
    pub(crate) best_effort: Arc<[Command<D>]>,
}

impl<D: Operators> LoadedNetwork<D> {
    pub(crate) fn new(device: &D, weights: Weights<D>, ends: Ends) -> Result<Self> {
        let network = weights.network()?;
        let task = Task::new(network.graphs(usize::MAX)?)?;
        let host = Work { task, best_effort: network.graphs(BE_GRAPH)? };
        let memory = memory_of(device, &network, ends.location)?;
        let (on_device, transfers) = Default::default();
        Ok(Self {
            device: device.clone(),
            weights,
            ends,
            network,
            host,
            on_device,
            memory,
            transfers,
        })
    }

    /// The inference from inputs of this side to outputs of this side.
    pub(crate) fn work(&self, side: Side) -> Result<&Work<D>> {
        match (side, self.on_device.get()) {
            (Side::Host, _) => Ok(&self.host),
            (Side::Device, Some(work)) => Ok(work),
            (Side::Device, None) => {
                let task = Task::new(self.network.device_graphs(usize::MAX)?)?;
                let work = Work { task, best_effort: self.network.device_graphs(BE_GRAPH)? };
                Ok(self.on_device.get_or_init(|| work)) // of two that make it one is kept
            }
        }
    }
}

/// Memory of the inputs and outputs of an instance, on both sides.
fn memory_of<D: Operators>(
    device: &D,
    network: &models::Network<D>,
    location: MemoryLocation,
) -> Result<[[Memory; 2]; 2]> {
    let regions = network.regions();
    let memory = |name: &str, location: MemoryLocation| {
        let region = regions.iter().find(|region| region.name == name);
        let region = region.ok_or_else(|| Fault::invalid(format!("no region {name:?}")))?;
        Ok::<_, Fault>(Memory::new(location, device, region.buffer.clone(), region.bytes))
    };
    Ok([
        [memory("host input", MemoryLocation::Host)?, memory("input", location)?],
        [memory("host output", MemoryLocation::Host)?, memory("output", location)?],
    ])
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

    fn memory(&self, end: End, side: Side) -> &Memory {
        &self.memory[usize::from(end == End::Outputs)][usize::from(side == Side::Device)]
    }

    fn alloc(&self, bytes: usize) -> Result<Memory> {
        let location = self.memory(End::Outputs, Side::Device).location();
        Ok(Memory::new(location, &self.device, self.device.alloc(bytes.max(1))?, bytes))
    }

    fn transfers(&self) -> Result<&dyn AnyTransfers> {
        if let Some(transfers) = self.transfers.get() {
            return Ok(&**transfers);
        }
        let transfers = transfers::open(&self.device)?;
        Ok(&**self.transfers.get_or_init(|| transfers))
    }

    fn instance(&self) -> Result<Box<dyn AnyNetwork>> {
        Ok(Box::new(Self::new(&self.device, self.weights.clone(), self.ends.clone())?))
    }

    fn resized(&self, model: &Model) -> Result<Box<dyn AnyNetwork>> {
        let weights = model.weights_sharing(&self.weights)?;
        Ok(Box::new(Self::new(&self.device, weights, Ends::of(model, self.ends.location))?))
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
