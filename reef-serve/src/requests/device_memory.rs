//! Device memory of a client. Its bytes never come to the host: the queue that runs a request
//! copies them.

use crate::engine::node::Node;
use crate::engine::shared::{SharedMemory, SharedPart};
use crate::error::{Error, Result};
use std::sync::Arc;

/// Device memory that another process shares, and where it is.
#[derive(Debug, Clone)]
pub(crate) struct DeviceMemory {
    pub(crate) node: Arc<Node>,
    memory: Arc<dyn SharedMemory>,
    /// As its driver wrote it.
    handle: [u8; 64],
}

impl DeviceMemory {
    /// Maps the first `bytes` bytes of the memory that `handle` stands for. Blocks.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is no such memory of this device, or shorter; the device's.
    pub(crate) fn open(node: &Arc<Node>, handle: &[u8], bytes: u64) -> Result<Self> {
        let given = handle.len();
        let handle = handle.try_into().map_err(|_| {
            Error::Invalid(format!("CUDA shared memory: a handle of {given} bytes, 64 wanted"))
        })?;
        let of = |text: &str| format!("CUDA shared memory: {text}");
        let opened = node.engine.open_shared(handle);
        let memory = opened.map_err(|error| node.told(error).map(of))?;
        let there = memory.bytes();
        if bytes == 0 || bytes > there as u64 {
            let text = format!("its allocation has {there} bytes, {bytes} asked");
            return Err(Error::Invalid(of(&text)));
        }
        Ok(Self { node: node.clone(), memory, handle: *handle })
    }

    /// Whether both are by one handle.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.node.index == other.node.index && self.handle == other.handle
    }
}

/// A part of it that holds one tensor.
#[derive(Debug, Clone)]
pub(crate) struct DeviceSlice {
    pub(crate) memory: DeviceMemory,
    /// Inside of what is mapped.
    pub(crate) begin: usize,
    pub(crate) bytes: usize,
    pub(crate) region: String,
}

impl DeviceSlice {
    /// Refuses what runs on another device.
    ///
    /// # Errors
    ///
    /// `Invalid` with both.
    pub(crate) fn check_device(&self, runs_on: &Node) -> Result<()> {
        let on = &self.memory.node;
        if on.index == runs_on.index {
            return Ok(());
        }
        let (region, on, runs_on) = (&self.region, &on.name, &runs_on.name);
        Err(Error::Invalid(format!("region {region:?} is on {on}, the model on {runs_on}")))
    }

    /// As a part of the model's inputs or outputs, from byte `offset` on.
    pub(crate) fn at(&self, offset: usize) -> SharedPart {
        let (memory, begin, bytes) = (self.memory.memory.clone(), self.begin, self.bytes);
        SharedPart { memory, begin, offset, bytes }
    }
}
