//! Copies between memory of other libraries of the process and memory of a device.
//!
//! *In*: addresses of one device. *Out*: copies that have ended. *Invariant*: the stream is ordered
//! with no queue, so its users wait for it before they launch work on the same memory.
//!
//! Other libraries order their own work before the stream's by its handle, as DLPack has it.

use crate::context::Context;
use crate::handles::Stream;
use cudarc::driver::sys::CUstream;
use reef_core::Result;
use reef_gpu::{Gpu, StreamKind, Streams};

/// The legacy default stream, as the driver names it: `CU_STREAM_LEGACY`.
const LEGACY: usize = 1;

/// Returns the device's number, as the driver counts.
pub fn ordinal(device: &Gpu<Context>) -> usize {
    device.vendor().primary.device as usize
}

/// A stream for copies, apart from all queues.
#[derive(Debug)]
pub struct Transfers {
    device: Gpu<Context>,
    stream: Stream,
}

impl Transfers {
    /// Opens a stream of the highest priority.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    pub fn open(device: &Gpu<Context>) -> Result<Self> {
        let stream = device.vendor().open_stream(StreamKind::RealTime)?;
        Ok(Self { device: device.clone(), stream })
    }

    /// The driver's handle, for libraries that let the stream wait for theirs.
    pub fn handle(&self) -> u64 {
        self.stream.0 as u64
    }

    /// Returns whether all that the stream waits for has ended. Doesn't block.
    ///
    /// # Errors
    ///
    /// `DeviceLost`; an error of the driver.
    pub fn is_idle(&self) -> Result<bool> {
        // SAFETY: the stream is open for as long as `self`.
        unsafe { self.context().is_idle(self.stream) }
    }

    /// Returns whether all work in the legacy default stream has ended. Doesn't block.
    ///
    /// # Errors
    ///
    /// `DeviceLost`; an error of the driver.
    pub fn default_is_idle(&self) -> Result<bool> {
        // SAFETY: the driver has this stream for as long as the context is there.
        unsafe { self.context().is_idle(Stream(LEGACY as CUstream)) }
    }

    /// Copies `bytes` bytes, after what the stream waits for. Blocks until they are there.
    ///
    /// # Safety
    ///
    /// Both ranges are memory of this device, allocated by any library of the process, and stay so
    /// during the call. Other work that touches them meanwhile gets torn values.
    ///
    /// # Errors
    ///
    /// `DeviceLost`; an error of the driver.
    pub unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
        let (context, stream) = (self.context(), self.stream);
        if bytes == 0 {
            return Ok(());
        }
        context.bind()?;
        // SAFETY: both ranges are memory of this device until the call returns: `copy` demands it,
        // and waits for the end. The stream is open for as long as `self`.
        unsafe {
            context.driver.cuMemcpyDtoDAsync_v2(to, from, bytes, stream.0)?;
            context.wait(stream)
        }
    }

    fn context(&self) -> &Context {
        self.device.vendor()
    }
}

impl Drop for Transfers {
    fn drop(&mut self) {
        // SAFETY: opened once; each copy was waited for, and what else is in the stream is the
        // driver's to end.
        unsafe { self.context().close_stream(self.stream) };
    }
}
