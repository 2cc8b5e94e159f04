//! Inferences whose tensors are in device memory of other processes: copied on the device, by the
//! queue that runs them.

use crate::error::{Error, Result};
use reef::models::{Network, Ports};
use reef::op::Operators;
use reef::{Command, Device};
use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::thread;

/// Memory of a device that another process has allocated. It stays mapped until the last clone is
/// dropped.
pub(crate) trait SharedMemory: Debug + Send + Sync {
    /// Its size.
    fn bytes(&self) -> usize;

    /// For the engine that opened it.
    fn as_any(&self) -> &dyn Any;

    /// What is there.
    #[cfg(test)]
    fn read(&self) -> Vec<u8>;

    /// Puts something there.
    #[cfg(test)]
    fn write(&self, bytes: &[u8]);
}

/// A tensor, or rows of one, in device memory of another process.
#[derive(Debug, Clone)]
pub(crate) struct SharedPart {
    pub(crate) memory: Arc<dyn SharedMemory>,
    /// Its first byte there.
    pub(crate) begin: usize,
    /// Its first byte among the model's inputs or outputs.
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// Tensors of one run in device memory of other processes, beside those that are written and read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SharedParts<'a> {
    pub(crate) inputs: &'a [SharedPart],
    pub(crate) outputs: &'a [SharedPart],
}

impl SharedParts<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.outputs.is_empty()
    }
}

/// Memory of another process.
pub(super) struct SharedOnDevice<D: Device> {
    /// `None` once it is being dropped.
    buffer: Option<D::Buffer>,
    bytes: usize,
    #[cfg(test)]
    device: D,
}

impl<D: Device> SharedOnDevice<D> {
    /// # Errors
    ///
    /// As [`Device::open_shared`].
    pub(super) fn open(device: &D, handle: &[u8; 64]) -> Result<Self> {
        Ok(Self::new(device, device.open_shared(handle)?))
    }

    pub(super) fn new(_device: &D, (buffer, bytes): (D::Buffer, usize)) -> Self {
        Self {
            buffer: Some(buffer),
            bytes,
            #[cfg(test)]
            device: _device.clone(),
        }
    }
}

impl<D: Device> Debug for SharedOnDevice<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedOnDevice").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl<D: Device> SharedMemory for SharedOnDevice<D> {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    #[cfg(test)]
    fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        self.device.read(self.buffer.as_ref().unwrap(), 0, &mut bytes).unwrap();
        bytes
    }

    #[cfg(test)]
    fn write(&self, bytes: &[u8]) {
        self.device.write(self.buffer.as_ref().unwrap(), 0, bytes).unwrap();
    }
}

/// The driver may wait for all work of the device before it unmaps memory: no thread of I/O does.
impl<D: Device> Drop for SharedOnDevice<D> {
    fn drop(&mut self) {
        let buffer = self.buffer.take();
        let _ = thread::Builder::new().name("reef-unmap".into()).spawn(move || drop(buffer)); // or here, without a thread
    }
}

/// What an instance needs for such inferences, made by the first of them.
#[derive(Debug)]
pub(super) struct Between<D: Operators> {
    /// From the inputs on the device to the outputs there.
    launches: Option<Arc<[Command<D>]>>,
    /// Launches in one graph.
    most: usize,
}

impl<D: Operators> Between<D> {
    pub(super) fn new(most: usize) -> Self {
        Self { launches: None, most }
    }

    /// The inference with these parts. What else it has goes by the host: then all of that side is
    /// copied, before the parts come in or after they have gone out.
    ///
    /// # Errors
    ///
    /// `Failed` for memory of another device; the device's.
    pub(super) fn commands(
        &mut self,
        network: &Network<D>,
        parts: SharedParts<'_>,
    ) -> Result<Vec<Command<D>>> {
        let mut commands = Vec::new();
        if !is_all(parts.inputs, network.inputs()) {
            commands.extend(network.copy_in());
        }
        for SharedPart { memory, begin, offset, bytes } in some(parts.inputs) {
            commands.push(network.copy_from((buffer::<D>(memory)?, *begin), *offset, *bytes)?);
        }
        commands.extend(self.launches(network)?.iter().cloned());
        for SharedPart { memory, begin, offset, bytes } in some(parts.outputs) {
            commands.push(network.copy_to((buffer::<D>(memory)?, *begin), *offset, *bytes)?);
        }
        if !is_all(parts.outputs, network.outputs()) {
            commands.push(network.copy_out());
        }
        Ok(commands)
    }

    fn launches(&mut self, network: &Network<D>) -> Result<Arc<[Command<D>]>> {
        if let Some(launches) = &self.launches {
            return Ok(launches.clone());
        }
        let made = network.device_graphs(self.most)?;
        Ok(self.launches.insert(made).clone())
    }
}

/// Those that aren't empty: no device copies nothing.
fn some(parts: &[SharedPart]) -> impl Iterator<Item = &SharedPart> {
    parts.iter().filter(|part| part.bytes > 0)
}

/// Whether these parts are all tensors of a side, of which there is something.
fn is_all(parts: &[SharedPart], ports: &Ports) -> bool {
    let all: usize = ports.iter().map(|(_, port)| port.spec.bytes()).sum();
    all > 0 && parts.iter().map(|part| part.bytes).sum::<usize>() == all
}

fn buffer<D: Operators>(memory: &Arc<dyn SharedMemory>) -> Result<&D::Buffer> {
    let own = memory.as_any().downcast_ref::<SharedOnDevice<D>>();
    let buffer = own.and_then(|own| own.buffer.as_ref());
    buffer.ok_or_else(|| Error::Failed("shared memory of another kind of device".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef::Copy;
    use reef::cpu::Cpu;
    use reef::models::Model;

    /// Copies of all commands: `true` is one to the host.
    fn copies(commands: &[Command<Cpu>]) -> Vec<(usize, bool)> {
        let copy = |command: &Command<Cpu>| match command {
            Command::Copy(Copy { bytes, to_host, .. }) => Some((*bytes, *to_host)),
            _ => None,
        };
        commands.iter().filter_map(copy).collect()
    }

    #[test]
    fn what_is_all_on_the_device_is_not_copied_by_the_host() {
        let device = Cpu::open(0, "units=1").unwrap();
        let network = Model::open("resnet18").input_size(32).load(&device).unwrap();
        let (input, output) = (network.inputs().bytes(), network.outputs().bytes());
        let part = |bytes: usize| {
            let buffer = (device.alloc(bytes).unwrap(), bytes);
            let memory = Arc::new(SharedOnDevice::new(&device, buffer));
            [SharedPart { memory, begin: 0, offset: 0, bytes }]
        };
        let mut between = Between::new(usize::MAX);
        let mut copied = |inputs: &[SharedPart], outputs: &[SharedPart]| {
            let parts = SharedParts { inputs, outputs };
            copies(&between.commands(&network, parts).unwrap())
        };
        let (all_in, all_out) = (part(input), part(output));
        assert_eq!(copied(&all_in, &all_out), [(input, false), (output, false)]);
        let both = [(input, false), (input, false), (output, false), (output, true)];
        assert_eq!(copied(&all_in, &[]), [both[0], both[3]]);
        assert_eq!(copied(&[], &all_out), [both[0], both[2]]);
        let (half_in, half_out) = (part(input / 2), part(output / 2));
        let halves = [(input, false), (input / 2, false), (output / 2, false), (output, true)];
        assert_eq!(copied(&half_in, &half_out), halves);
        let beyond = [SharedPart { offset: 4, ..all_in[0].clone() }];
        assert!(between.commands(&network, SharedParts { inputs: &beyond, outputs: &[] }).is_err());
    }
}
