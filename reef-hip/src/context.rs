//! State that all parts of one open device share: facts, a stream for housekeeping, and pools of
//! streams and memory.

use crate::code::elf::Kernels;
use crate::driver::Driver;
use crate::facts::Device;
use crate::handles::{Code, Stream};
use crate::masks::Masks;
use crate::order::Order;
use crate::pools::{MemoryPools, Retired, StreamPool};
use parking_lot::Mutex;
use reef_core::Result;
use reef_gpu::Facts;
use std::collections::HashMap;
use std::fmt;

/// An open device.
///
/// Nothing here waits while work is pending, except for what it is asked to wait for: memory and
/// streams that are given back are kept for the next request, and go back to the runtime when this
/// is dropped.
pub struct Context {
    pub(crate) driver: &'static Driver,
    pub(crate) device: Device,
    pub(crate) facts: Facts,
    /// Units that streams run on; `None`: all.
    pub(crate) masks: Option<Masks>,
    /// Stream for zeroing, and for reads and writes that block: at the middle priority.
    pub(crate) housekeeping: Stream,
    pub(crate) streams: Mutex<StreamPool>,
    /// Locked after `streams`, if both are.
    pub(crate) retired: Mutex<Retired>,
    pub(crate) memory: MemoryPools,
    /// Event that keeps padding behind the kernels before it.
    pub(crate) order: Order,
    /// Loaded code, and the kernels that it describes.
    pub(crate) loaded: Mutex<HashMap<Code, Kernels>>,
}

impl Context {
    /// Makes the device this thread's current one, as every call of the runtime wants.
    pub(crate) fn bind(&self) -> Result<()> {
        // SAFETY: the device is there.
        unsafe { self.driver.hipSetDevice(self.device.ordinal) }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("facts", &self.facts).finish_non_exhaustive()
    }
}
