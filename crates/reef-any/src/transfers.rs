//! Copies between a network's memory and memory of other libraries on the same device.

use crate::fault::{Fault, Reason, Result};
use crate::memory::MemoryLocation;
use reef::op::Operators;
use std::any::Any;

/// A stream of a device for copies, which has ended each before it returns.
pub(crate) trait AnyTransfers: Send + Sync {
    /// Handle for libraries that let the stream wait for their work.
    fn handle(&self) -> u64;

    /// Returns whether what the stream waits for has ended.
    fn is_idle(&self) -> Result<bool>;

    /// Returns whether all work in the device's default stream has ended.
    fn default_is_idle(&self) -> Result<bool>;

    /// Copies, and waits.
    ///
    /// # Safety
    ///
    /// Both ranges are memory of this device, and stay so during the call.
    unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<()>;
}

/// Location of the device's memory.
pub(crate) fn location_of<D: Operators>(device: &D) -> MemoryLocation {
    let device: &dyn Any = device;
    #[cfg(feature = "cuda")]
    if let Some(device) = device.downcast_ref::<reef::cuda::Cuda>() {
        return MemoryLocation::Cuda(reef::cuda::ordinal(device));
    }
    if device.is::<reef::cpu::Cpu>() { MemoryLocation::Host } else { MemoryLocation::Private }
}

/// Opens a stream of the device for copies.
///
/// # Errors
///
/// `Unsupported` where other libraries can't use the device's memory; an error of the device.
pub(crate) fn open<D: Operators>(device: &D) -> Result<Box<dyn AnyTransfers>> {
    #[cfg(feature = "cuda")]
    if let Some(device) = (device as &dyn Any).downcast_ref::<reef::cuda::Cuda>() {
        return Ok(Box::new(cuda::Cuda(reef::cuda::Transfers::open(device)?)));
    }
    let _ = device;
    let text = format!("{}: arrays of other libraries must be in the host's memory", D::NAME);
    Err(Fault::new(Reason::Unsupported, text))
}

#[cfg(feature = "cuda")]
mod cuda {
    use super::AnyTransfers;
    use crate::fault::Result;

    pub(super) struct Cuda(pub(super) reef::cuda::Transfers);

    impl AnyTransfers for Cuda {
        fn handle(&self) -> u64 {
            self.0.handle()
        }

        fn is_idle(&self) -> Result<bool> {
            Ok(self.0.is_idle()?)
        }

        fn default_is_idle(&self) -> Result<bool> {
            Ok(self.0.default_is_idle()?)
        }

        unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
            // SAFETY: both ranges are memory of the device during the call: `AnyTransfers::copy`
            // demands it.
            Ok(unsafe { self.0.copy(to, from, bytes) }?)
        }
    }
}
