//! Inferences whose tensors are in device memory of other processes. The device copies them, in the
//! queue of the inference.

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
    /// Returns its size in bytes.
    fn bytes(&self) -> usize;

    /// Returns itself, for the engine that opened it.
    fn as_any(&self) -> &dyn Any;

    /// Reads all of it.
    #[cfg(test)]
    fn read(&self) -> Vec<u8>;

    /// Writes to its start.
    #[cfg(test)]
    fn write(&self, bytes: &[u8]);
}

/// A tensor, or rows of one, in device memory of another process.
#[derive(Debug, Clone)]
pub(crate) struct SharedPart {
    pub(crate) memory: Arc<dyn SharedMemory>,
    /// Offset in that memory.
    pub(crate) begin: usize,
    /// Offset among the model's inputs or outputs.
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// Tensors of one run in device memory of other processes. Other tensors are written and read by
/// the host.
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
    /// `None` only while it is dropped.
    buffer: Option<D::Buffer>,
    bytes: usize,
    #[cfg(test)]
    device: D,
}

impl<D: Device> SharedOnDevice<D> {
    /// Maps memory of another process by its handle.
    ///
    /// # Errors
    ///
    /// Errors of [`Device::open_shared`].
    pub(super) fn open(device: &D, handle: &[u8; 64]) -> Result<Self> {
        let (buffer, bytes) = device.open_shared(handle)?;
        Ok(Self::new(device, buffer, bytes))
    }

    pub(super) fn new(_device: &D, buffer: D::Buffer, bytes: usize) -> Self {
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

/// Unmaps on a thread of its own: the driver may wait for all work of the device, and no I/O thread
/// may wait that long.
impl<D: Device> Drop for SharedOnDevice<D> {
    fn drop(&mut self) {
        let buffer = self.buffer.take();
        // Without a thread it is dropped here.
        let _ = thread::Builder::new().name("reef-unmap".into()).spawn(move || drop(buffer));
    }
}

/// Commands for such inferences, created by the first of them.
#[derive(Debug)]
pub(super) struct SharedCommands<D: Operators> {
    /// From the inputs on the device to the outputs there.
    launches: Option<Arc<[Command<D>]>>,
    /// Maximum number of launches in one graph.
    max_graph: usize,
}

impl<D: Operators> SharedCommands<D> {
    pub(super) fn new(max_graph: usize) -> Self {
        Self { launches: None, max_graph }
    }

    /// Returns the commands of an inference with these parts. Other tensors go through the host, in
    /// copies before the input parts or after the output parts.
    ///
    /// # Errors
    ///
    /// `Failed` for memory of another device; errors of the device.
    pub(super) fn commands(
        &mut self,
        network: &Network<D>,
        parts: SharedParts<'_>,
    ) -> Result<Vec<Command<D>>> {
        let mut commands = Vec::new();
        for (offset, bytes) in ranges_of_host(parts.inputs, network.inputs()) {
            commands.push(network.copy_part_in(offset, bytes)?);
        }
        for SharedPart { memory, begin, offset, bytes } in non_empty(parts.inputs) {
            commands.push(network.copy_from((buffer::<D>(memory)?, *begin), *offset, *bytes)?);
        }
        commands.extend(self.launches(network)?.iter().cloned());
        for SharedPart { memory, begin, offset, bytes } in non_empty(parts.outputs) {
            commands.push(network.copy_to((buffer::<D>(memory)?, *begin), *offset, *bytes)?);
        }
        for (offset, bytes) in ranges_of_host(parts.outputs, network.outputs()) {
            commands.push(network.copy_part_out(offset, bytes)?);
        }
        if commands.is_empty() {
            commands.push(network.copy_out()); // without commands nothing could be waited for
        }
        Ok(commands)
    }

    fn launches(&mut self, network: &Network<D>) -> Result<Arc<[Command<D>]>> {
        if let Some(launches) = &self.launches {
            return Ok(launches.clone());
        }
        let made = network.device_graphs(self.max_graph)?;
        Ok(self.launches.insert(made).clone())
    }
}

/// Skips empty parts: devices do not copy 0 bytes.
fn non_empty(parts: &[SharedPart]) -> impl Iterator<Item = &SharedPart> {
    parts.iter().filter(|part| part.bytes > 0)
}

/// Returns offset and bytes of the tensors that are not in these parts, neighbours as one range.
fn ranges_of_host(parts: &[SharedPart], ports: &Ports) -> Vec<(usize, usize)> {
    let in_parts = |offset: usize, bytes: usize| {
        let inside = parts.iter().filter(|part| (offset..offset + bytes).contains(&part.offset));
        inside.map(|part| part.bytes).sum::<usize>() == bytes
    };
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    let mut follows = false;
    for (offset, bytes) in ports.ranges().filter(|(_, bytes)| *bytes > 0) {
        let is_host = !in_parts(offset, bytes);
        match ranges.last_mut() {
            Some((first, length)) if is_host && follows => *length = offset + bytes - *first,
            _ if is_host => ranges.push((offset, bytes)),
            _ => {}
        }
        follows = is_host;
    }
    ranges
}

fn buffer<D: Operators>(memory: &Arc<dyn SharedMemory>) -> Result<&D::Buffer> {
    let own = memory.as_any().downcast_ref::<SharedOnDevice<D>>();
    let buffer = own.and_then(|own| own.buffer.as_ref());
    buffer.ok_or_else(|| Error::Failed("shared memory must be of the same kind of device".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef::command::Copy;
    use reef::cpu::Cpu;
    use reef::models::{Extent, Model, Port};
    use reef::tensor::{Element, Spec};

    /// Returns the copies among all commands; `true` is a copy to the host.
    fn copies(commands: &[Command<Cpu>]) -> Vec<(usize, bool)> {
        let copy = |command: &Command<Cpu>| match command {
            Command::Copy(Copy { bytes, to_host, .. }) => Some((*bytes, *to_host)),
            _ => None,
        };
        commands.iter().filter_map(copy).collect()
    }

    #[test]
    fn tensors_on_the_device_are_not_copied_by_the_host() {
        let device = Cpu::open(0, "units=1").unwrap();
        let network = Model::open("resnet18").input_size(32).load(&device).unwrap();
        let (input, output) = (network.inputs().bytes(), network.outputs().bytes());
        let part = |bytes: usize| {
            let buffer = device.alloc(bytes).unwrap();
            let memory = Arc::new(SharedOnDevice::new(&device, buffer, bytes));
            [SharedPart { memory, begin: 0, offset: 0, bytes }]
        };
        let mut shared = SharedCommands::new(usize::MAX);
        let mut copied = |inputs: &[SharedPart], outputs: &[SharedPart]| {
            let parts = SharedParts { inputs, outputs };
            copies(&shared.commands(&network, parts).unwrap())
        };
        let (all_in, all_out) = (part(input), part(output));
        assert_eq!(copied(&all_in, &all_out), [(input, false), (output, false)]);
        let both = [(input, false), (input, false), (output, false), (output, true)];
        assert_eq!(copied(&all_in, &[]), [both[0], both[3]]);
        assert_eq!(copied(&[], &all_out), [both[0], both[2]]);
        let (half_in, half_out) = (part(input / 2), part(output / 2));
        let halves = [(input, false), (input / 2, false), (output / 2, false), (output, true)];
        assert_eq!(copied(&half_in, &half_out), halves);
        let part_of = |offset, bytes| SharedPart { offset, ..part(bytes)[0].clone() };
        let ports = {
            let port = |name: &str, size: usize| Port {
                name: name.into(),
                spec: Spec { element: Element::F32, dims: vec![size] },
                storage: 0,
                extent: Extent::Fixed,
                texts: None,
            };
            Ports::new([port("x", 1), port("state", 16), port("y", 2), port("z", 3)])
        };
        let ranges = |parts: &[SharedPart]| ranges_of_host(parts, &ports);
        assert_eq!(ranges(&[]), [(0, ports.bytes())]);
        assert_eq!(ranges(&[part_of(64, 64)]), [(0, 4), (128, 76)]);
        assert_eq!(ranges(&[part_of(64, 32), part_of(96, 32)]), [(0, 4), (128, 76)]);
        assert_eq!(ranges(&[part_of(64, 32)]), [(0, ports.bytes())]);
        let beyond = [SharedPart { offset: 4, ..all_in[0].clone() }];
        assert!(shared.commands(&network, SharedParts { inputs: &beyond, outputs: &[] }).is_err());
    }
}
