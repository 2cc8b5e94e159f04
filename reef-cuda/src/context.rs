//! What everything of one open device shares: the driver's context, facts, a stream for housekeeping,
//! words that host and device both see.
//!
//! The context is the device's primary one, which other libraries in the process use as well, so
//! buffers and kernels of theirs can be mixed with ours.

use crate::driver::Driver;
use crate::facts::{Facts, find};
use crate::word::Words;
use cudarc::driver::sys::*;
use parking_lot::Mutex;
use reef_core::{Error, Priority, Result};
use std::ffi::{c_uint, c_void};
use std::fmt;

/// `CU_STREAM_NON_BLOCKING`: no hidden order with the legacy default stream.
const NON_BLOCKING: c_uint = 1;

/// A retained primary context.
struct Primary {
    driver: &'static Driver,
    device: CUdevice,
    raw: CUcontext,
}

impl Primary {
    fn retain(driver: &'static Driver, device: CUdevice) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the device is one that the driver gave; released when this is dropped.
        unsafe { driver.cuDevicePrimaryCtxRetain(&mut raw, device) }?;
        Ok(Self { driver, device, raw })
    }

    fn bind(&self) -> Result<()> {
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
pub(crate) struct Context {
    pub(crate) driver: &'static Driver,
    pub(crate) facts: Facts,
    /// For allocation, and for reads and writes that block.
    housekeeping: CUstream,
    pub(crate) words: Mutex<Words>,
    primary: Primary,
}

// SAFETY: the driver's handles may be used from any thread; each call makes the context current first.
unsafe impl Send for Context {}
// SAFETY: as above; what changes is behind a lock.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn open(driver: &'static Driver, ordinal: usize) -> Result<Self> {
        let primary = Primary::retain(driver, find(driver, ordinal)?)?;
        primary.bind()?;
        let facts = Facts::read(driver, primary.device)?;
        let (housekeeping, words) = (std::ptr::null_mut(), Mutex::default());
        let mut context = Self { driver, facts, housekeeping, words, primary };
        context.housekeeping = context.stream(Priority::RealTime)?;
        context.keep_freed_memory()?;
        Ok(context)
    }

    /// Makes this the thread's current context, as every call of the driver wants.
    pub(crate) fn bind(&self) -> Result<()> {
        self.primary.bind()
    }

    /// Opens a stream of the lowest or the highest priority.
    pub(crate) fn stream(&self, priority: Priority) -> Result<CUstream> {
        self.bind()?;
        let (lowest, highest) = self.facts.priorities;
        let priority = if priority == Priority::RealTime { highest } else { lowest };
        let mut stream = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call.
        unsafe { self.driver.cuStreamCreateWithPriority(&mut stream, NON_BLOCKING, priority) }?;
        Ok(stream)
    }

    /// Allocates zeroed device memory. Blocks for as long as that takes, not for other work.
    pub(crate) fn alloc(&self, bytes: usize) -> Result<CUdeviceptr> {
        if !self.facts.pools {
            return self.alloc_unpooled(bytes);
        }
        self.bind()?;
        let mut memory = 0;
        // SAFETY: the pointer is valid for the call.
        let done = unsafe { self.driver.cuMemAllocAsync(&mut memory, bytes, self.housekeeping) };
        done.map_err(|error| asked(error, bytes))?;
        self.zero(memory, bytes).inspect_err(|_| self.free(memory))?;
        Ok(memory)
    }

    /// As [`alloc`](Self::alloc), where streams can write words; freeing it waits for all work.
    pub(crate) fn alloc_unpooled(&self, bytes: usize) -> Result<CUdeviceptr> {
        self.bind()?;
        let mut memory = 0;
        // SAFETY: the pointer is valid for the call.
        let done = unsafe { self.driver.cuMemAlloc_v2(&mut memory, bytes) };
        done.map_err(|error| asked(error, bytes))?;
        self.zero(memory, bytes).inspect_err(|_| self.free_unpooled(memory))?;
        Ok(memory)
    }

    fn zero(&self, memory: CUdeviceptr, bytes: usize) -> Result<()> {
        // SAFETY: the fill stays inside what was allocated.
        unsafe {
            self.driver.cuMemsetD8Async(memory, 0, bytes, self.housekeeping)?;
            self.driver.cuStreamSynchronize(self.housekeeping)
        }
    }

    /// Frees what [`alloc`](Self::alloc) gave and no work uses any more.
    pub(crate) fn free(&self, memory: CUdeviceptr) {
        if !self.facts.pools {
            return self.free_unpooled(memory);
        }
        if self.bind().is_ok() {
            // SAFETY: it came from the pool, once. Of a lost device there is nothing to free.
            let _ = unsafe { self.driver.cuMemFreeAsync(memory, self.housekeeping) };
        }
    }

    pub(crate) fn free_unpooled(&self, memory: CUdeviceptr) {
        if self.bind().is_ok() {
            // SAFETY: it came from `alloc_unpooled`, once.
            let _ = unsafe { self.driver.cuMemFree_v2(memory) };
        }
    }

    /// Allocates host memory that the device can reach: its address here and there.
    pub(crate) fn alloc_host(&self, bytes: usize) -> Result<(*mut u8, CUdeviceptr)> {
        /// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`
        const FLAGS: c_uint = 3;
        self.bind()?;
        let (mut host, mut device) = (std::ptr::null_mut(), 0);
        // SAFETY: the pointers are valid for the calls.
        unsafe {
            self.driver.cuMemHostAlloc(&mut host, bytes, FLAGS)?;
            let mapped = self.driver.cuMemHostGetDevicePointer_v2(&mut device, host, 0);
            mapped.inspect_err(|_| self.free_host(host.cast()))?;
            std::ptr::write_bytes(host.cast::<u8>(), 0, bytes);
        }
        Ok((host.cast(), device))
    }

    pub(crate) fn free_host(&self, host: *mut u8) {
        if self.bind().is_ok() {
            // SAFETY: it came from `alloc_host`, once.
            let _ = unsafe { self.driver.cuMemFreeHost(host.cast()) };
        }
    }

    /// Copies to the device. Blocks.
    pub(crate) fn write(&self, to: CUdeviceptr, data: &[u8]) -> Result<()> {
        self.bind()?;
        let (driver, stream) = (self.driver, self.housekeeping);
        // SAFETY: the caller has checked the range; `data` outlives the call, which waits.
        unsafe {
            driver.cuMemcpyHtoDAsync_v2(to, data.as_ptr().cast(), data.len(), stream)?;
            driver.cuStreamSynchronize(stream)
        }
    }

    /// Copies from the device. Blocks.
    pub(crate) fn read(&self, from: CUdeviceptr, data: &mut [u8]) -> Result<()> {
        self.bind()?;
        let (driver, stream) = (self.driver, self.housekeeping);
        // SAFETY: the caller has checked the range; `data` outlives the call, which waits.
        unsafe {
            driver.cuMemcpyDtoHAsync_v2(data.as_mut_ptr().cast(), from, data.len(), stream)?;
            driver.cuStreamSynchronize(stream)
        }
    }

    /// Lets the pool keep what is freed: giving it back to the system takes milliseconds.
    fn keep_freed_memory(&self) -> Result<()> {
        /// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`
        const RELEASE_THRESHOLD: c_uint = 4;
        if !self.facts.pools {
            return Ok(());
        }
        let (mut pool, mut all) = (std::ptr::null_mut(), u64::MAX);
        // SAFETY: the pointers are valid for the calls.
        unsafe {
            self.driver.cuDeviceGetDefaultMemPool(&mut pool, self.primary.device)?;
            let all: *mut c_void = (&raw mut all).cast();
            self.driver.cuMemPoolSetAttribute(pool, RELEASE_THRESHOLD, all)
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.bind().is_err() {
            return;
        }
        let words = std::mem::take(&mut *self.words.lock());
        words.free(self);
        if !self.housekeeping.is_null() {
            // SAFETY: nobody uses the stream any more.
            let _ = unsafe { self.driver.cuStreamDestroy_v2(self.housekeeping) };
        }
    }
}

/// The driver doesn't say how much was asked for.
fn asked(error: Error, bytes: usize) -> Error {
    match error {
        Error::OutOfMemory { backend, .. } => Error::OutOfMemory { backend, asked: bytes },
        other => other,
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("facts", &self.facts).finish_non_exhaustive()
    }
}
