//! Device memory of a client, or of a sequence. Its bytes never pass through the host: the queue
//! that runs a request copies them, or a process opens the client's memory.

use crate::engine::call::DevicePart;
use crate::engine::node::Node;
use crate::engine::shared::{SharedMemory, SharedPart};
use crate::error::{Error, Result};
use std::sync::Arc;

/// Device memory that another process shares or that is a sequence's, and its device.
#[derive(Debug, Clone)]
pub(crate) struct DeviceMemory {
    pub(crate) node: Arc<Node>,
    memory: Arc<dyn SharedMemory>,
    /// Handle of the driver; zeros if it is the daemon's own.
    handle: [u8; 64],
}

impl DeviceMemory {
    /// Maps the first `bytes` bytes of the memory with this `handle`. Blocks.
    ///
    /// # Errors
    ///
    /// `Invalid` if the handle is not for memory of this device, or the memory is shorter; errors
    /// of the device.
    pub(crate) fn open(node: &Arc<Node>, handle: &[u8], bytes: u64) -> Result<Self> {
        let given = handle.len();
        let handle = handle.try_into().map_err(|_| {
            Error::Invalid(format!("CUDA shared memory: handle must have 64 bytes, got {given}"))
        })?;
        let of = |text: &str| format!("CUDA shared memory: {text}");
        let opened = node.engine.open_shared(handle);
        let memory = opened.map_err(|error| node.diagnose(error).map_text(of))?;
        let there = memory.bytes();
        if bytes == 0 || bytes > there as u64 {
            let text = format!("size must be 1 to the allocation's {there} bytes, got {bytes}");
            return Err(Error::Invalid(of(&text)));
        }
        Ok(Self { node: node.clone(), memory, handle: *handle })
    }

    /// Allocates memory of the daemon's own. Blocks.
    ///
    /// # Errors
    ///
    /// Errors of the device.
    pub(crate) fn alloc(node: &Arc<Node>, bytes: usize) -> Result<Self> {
        let memory = node.engine.alloc_shared(bytes).map_err(|error| node.diagnose(error))?;
        Ok(Self { node: node.clone(), memory, handle: [0; 64] })
    }

    /// True if both have the same handle.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.node.index == other.node.index && self.handle == other.handle
    }
}

/// A part of it that holds one tensor.
#[derive(Debug, Clone)]
pub(crate) struct DeviceSlice {
    pub(crate) memory: DeviceMemory,
    /// Offset in the mapped memory.
    pub(crate) begin: usize,
    pub(crate) bytes: usize,
    pub(crate) region: String,
}

impl DeviceSlice {
    /// Refuses a model on another device.
    ///
    /// # Errors
    ///
    /// `Invalid`, with both devices.
    pub(crate) fn check_device(&self, runs_on: &Node) -> Result<()> {
        let on = &self.memory.node;
        if on.index == runs_on.index {
            return Ok(());
        }
        let (region, on, runs_on) = (&self.region, &on.name, &runs_on.name);
        Err(Error::Invalid(format!(
            "region {region:?} must be on {runs_on} as the model is, got {on}"
        )))
    }

    /// Returns it for a process that opens it by itself.
    pub(crate) fn for_process(&self) -> DevicePart {
        DevicePart { handle: self.memory.handle, offset: self.begin, length: self.bytes }
    }

    /// Returns it as a part of the model's inputs or outputs at byte `offset`.
    pub(crate) fn at(&self, offset: usize) -> SharedPart {
        let (memory, begin, bytes) = (self.memory.memory.clone(), self.begin, self.bytes);
        SharedPart { memory, begin, offset, bytes }
    }
}
