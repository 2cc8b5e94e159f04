//! An open device, as the driver runs it.
//!
//! The context is the device's primary one, which other libraries in the process use as well, so
//! buffers and kernels of theirs can be mixed with ours.

use crate::driver::Driver;
use crate::facts::CudaFacts;
use crate::order::Order;
use crate::parts::{Parts, Split};
use cudarc::driver::sys::*;
use parking_lot::Mutex;
use reef_core::Result;
use reef_gpu::{Facts, FreeList};
use std::fmt;

/// A retained primary context.
pub(crate) struct Primary {
    driver: &'static Driver,
    pub(crate) device: CUdevice,
    raw: CUcontext,
}

impl Primary {
    pub(crate) fn retain(driver: &'static Driver, device: CUdevice) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the device is one that the driver gave; released when this is dropped.
        unsafe { driver.cuDevicePrimaryCtxRetain(&mut raw, device) }?;
        Ok(Self { driver, device, raw })
    }

    pub(crate) fn bind(&self) -> Result<()> {
        // SAFETY: the context is retained.
        unsafe { self.driver.cuCtxSetCurrent(self.raw) }
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: retained once.
        let _ = unsafe { self.driver.cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// An open device.
pub struct Context {
    pub(crate) driver: &'static Driver,
    pub(crate) facts: Facts,
    pub(crate) own: CudaFacts,
    /// The two parts in which streams are opened, if the device was split.
    pub(crate) split: Option<Split>,
    /// Parts that graphs were captured for.
    pub(crate) parts: Parts,
    /// Event that keeps padding behind the kernels before it.
    pub(crate) order: Order,
    /// Stream for allocation, and for reads and writes that block.
    pub(crate) housekeeping: CUstream,
    /// Pinned memory of the host.
    pub(crate) pinned: Mutex<FreeList>,
    pub(crate) primary: Primary,
}

// SAFETY: the driver's handles may be used from any thread; each call makes the context current
// first.
unsafe impl Send for Context {}
// SAFETY: methods take `&self`, what changes is behind locks, and the driver lets several threads
// use a handle at once.
unsafe impl Sync for Context {}

impl Context {
    /// Makes this the thread's current context, as every call of the driver wants.
    pub(crate) fn bind(&self) -> Result<()> {
        self.primary.bind()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("facts", &self.facts).finish_non_exhaustive()
    }
}
