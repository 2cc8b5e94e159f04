//! Memory that other libraries of the process may use in place.

use crate::fault::Result;
use reef::op::Operators;
use std::fmt;
use std::sync::Arc;

/// Location of memory, as other libraries name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLocation {
    /// Memory of the host.
    Host,
    /// Memory of the NVIDIA GPU with this number, as the driver counts.
    Cuda(usize),
    /// Memory of a device that other libraries can't use in place.
    Private,
}

/// Side of a request's inputs and outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Memory of the host that the device copies from and to.
    Host,
    /// Memory of the device, which kernels use.
    Device,
}

/// Inputs or outputs of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Tensors that go in.
    Inputs,
    /// Tensors that come out.
    Outputs,
}

/// A buffer of some device.
trait AnyMemory: Send + Sync {
    fn address(&self) -> u64;
    fn write(&self, offset: usize, data: &[u8]) -> Result<()>;
    fn read(&self, offset: usize, data: &mut [u8]) -> Result<()>;
}

/// Memory of a device, or of the host where the device reaches it. It stays until the last clone is
/// dropped.
#[derive(Clone)]
pub struct Memory {
    location: MemoryLocation,
    bytes: usize,
    inner: Arc<dyn AnyMemory>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (location, bytes) = (self.location, self.bytes);
        out.debug_struct("Memory").field("location", &location).field("bytes", &bytes).finish()
    }
}

impl Memory {
    pub(crate) fn new<D: Operators>(
        location: MemoryLocation,
        device: &D,
        buffer: D::Buffer,
        bytes: usize,
    ) -> Self {
        Self { location, bytes, inner: Arc::new(Typed { device: device.clone(), buffer }) }
    }

    /// Returns its location.
    pub fn location(&self) -> MemoryLocation {
        self.location
    }

    /// Returns its first address there: of pinned memory the host's and the device's, which are one
    /// with CUDA's unified addresses. This crate reaches memory of the host by atomics of 32 bits
    /// alone, except where kernels of a request use it.
    pub fn address(&self) -> u64 {
        self.inner.address()
    }

    /// Returns its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes from byte `offset` on. Blocks, unordered with requests.
    ///
    /// # Errors
    ///
    /// `Invalid`: it does not fit; an error of the device.
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        self.inner.write(offset, data)
    }

    /// Reads from byte `offset` on. Blocks, unordered with requests.
    ///
    /// # Errors
    ///
    /// `Invalid`: there are fewer; an error of the device.
    pub fn read(&self, offset: usize, data: &mut [u8]) -> Result<()> {
        self.inner.read(offset, data)
    }
}

struct Typed<D: Operators> {
    device: D,
    buffer: D::Buffer,
}

impl<D: Operators> AnyMemory for Typed<D> {
    fn address(&self) -> u64 {
        self.device.address(&self.buffer)
    }

    fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        Ok(self.device.write(&self.buffer, offset, data)?)
    }

    fn read(&self, offset: usize, data: &mut [u8]) -> Result<()> {
        Ok(self.device.read(&self.buffer, offset, data)?)
    }
}
