//! A network on a device, with memory for one inference at a time.

use crate::device_id::DeviceId;
use crate::fault::{Fault, Result};
use crate::memory::{End, Memory, Place, Side};
use crate::request::Request;
use crate::transfers::{self, AnyTransfers};
use parking_lot::{Mutex, MutexGuard};
use reef::models::{self, Model, Ports, Weights};
use reef::op::{Operators, Tensor};
use reef::{Command, Task};
use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

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

    /// Place of the memory on the device.
    pub fn place(&self) -> Place {
        self.inner.ends().place
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
    /// `Unsupported`: other libraries can't use the device's memory in place; the device's.
    pub fn stream(&self) -> Result<u64> {
        Ok(self.inner.transfers()?.handle())
    }

    /// Returns whether what [`stream`](Self::stream) waits for has ended. Doesn't block.
    ///
    /// # Errors
    ///
    /// As [`stream`](Self::stream).
    pub fn has_arrived(&self) -> Result<bool> {
        self.inner.transfers()?.is_idle()
    }

    /// Returns whether all work in the device's default stream has ended. Doesn't block.
    ///
    /// # Errors
    ///
    /// As [`stream`](Self::stream).
    pub fn default_has_ended(&self) -> Result<bool> {
        self.inner.transfers()?.default_is_idle()
    }

    /// Copies `bytes` bytes of another library's memory on the device into the inputs there, from
    /// byte `offset` on. Blocks until they are there; [`has_arrived`](Self::has_arrived) is true.
    ///
    /// # Safety
    ///
    /// `bytes` bytes from `address` on are memory of the device, and stay so during the call.
    ///
    /// # Errors
    ///
    /// `Busy`: a request is on its way; `Invalid`: it does not fit; those of
    /// [`stream`](Self::stream).
    pub unsafe fn copy_in(&self, offset: usize, address: u64, bytes: usize) -> Result<()> {
        let _at_rest = self.at_rest()?;
        let to = self.inner.memory(End::Inputs, Side::Device);
        inside(to, offset, bytes)?;
        // SAFETY: the caller's promise; the other range is inside of the network's memory.
        unsafe { self.inner.transfers()?.copy(to.address() + offset as u64, address, bytes) }
    }

    /// Copies all outputs on the device, as [`outputs`](Self::outputs) lays them out, to memory of
    /// the same device. Blocks until they are there.
    ///
    /// # Errors
    ///
    /// `Busy`: a request is on its way; `Invalid`: it is other memory, or smaller.
    pub fn copy_out(&self, to: &Memory) -> Result<()> {
        let _at_rest = self.at_rest()?;
        let (from, bytes) = (self.inner.memory(End::Outputs, Side::Device), self.outputs().bytes());
        inside(to, 0, bytes)?;
        if to.place() != from.place() {
            return Err(Fault::invalid("the memory is not on the network's device"));
        }
        if to.place() == Place::Host {
            let mut data = vec![0; bytes];
            return from.read(0, &mut data).and_then(|()| to.write(0, &data));
        }
        // SAFETY: both are memory of the device, and large enough.
        unsafe { self.inner.transfers()?.copy(to.address(), from.address(), bytes) }
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

/// Refuses a range that is not inside of the memory.
fn inside(memory: &Memory, offset: usize, bytes: usize) -> Result<()> {
    if offset.checked_add(bytes).is_some_and(|end| end <= memory.bytes()) {
        return Ok(());
    }
    let have = memory.bytes();
    Err(Fault::invalid(format!("{bytes} B from byte {offset} on must be inside of {have} B")))
}

/// Inputs and outputs of a network.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    place: Place,
    inputs: Ports,
    outputs: Ports,
    pictures: Option<[Tensor; 2]>,
}

impl Ends {
    pub(crate) fn of(model: &Model, place: Place) -> Self {
        let pictures = model.picture().ok().map(|(it, _)| [*it.input(), *it.output()]);
        Self { place, inputs: model.inputs(), outputs: model.outputs(), pictures }
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
        let memory = memory_of(device, &network, ends.place)?;
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
    place: Place,
) -> Result<[[Memory; 2]; 2]> {
    let regions = network.regions();
    let memory = |name: &str, place: Place| {
        let region = regions.iter().find(|region| region.name == name);
        let region = region.ok_or_else(|| Fault::invalid(format!("no region {name:?}")))?;
        Ok::<_, Fault>(Memory::new(place, device, region.buffer.clone(), region.bytes))
    };
    Ok([
        [memory("host input", Place::Host)?, memory("input", place)?],
        [memory("host output", Place::Host)?, memory("output", place)?],
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
        let place = self.memory(End::Outputs, Side::Device).place();
        Ok(Memory::new(place, &self.device, self.device.alloc(bytes.max(1))?, bytes))
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

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The network as one of devices `D`.
pub(crate) fn of<D: Operators>(network: &dyn AnyNetwork) -> Result<&LoadedNetwork<D>> {
    let network = network.as_any().downcast_ref();
    network.ok_or_else(|| Fault::invalid(format!("the network is on no {}", D::NAME)))
}
