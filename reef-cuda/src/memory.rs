//! Memory of the device, of the host, and the words that streams wait for.

use crate::context::Context;
use crate::driver::BACKEND;
use cudarc::driver::sys::*;
use reef_core::{Error, Result};
use reef_gpu::{GateSignal, Memory, Reset, place, with_asked};
use std::ffi::{c_uint, c_void};

// SAFETY: allocations are the driver's, cleared before they are given; addresses and sizes are
// those that it says.
unsafe impl Memory for Context {
    fn alloc(&self, bytes: usize) -> Result<u64> {
        if !self.own.pools {
            return self.alloc_signals(bytes);
        }
        self.bind()?;
        let mut memory = 0;
        // SAFETY: the pointer is valid for the call.
        let done = unsafe { self.driver.cuMemAllocAsync(&mut memory, bytes, self.housekeeping) };
        done.map_err(|error| with_asked(error, bytes))?;
        // SAFETY: allocated above, and used by nothing but the fill, which was refused.
        self.zero(memory, bytes).inspect_err(|_| unsafe { self.free(memory) })?;
        Ok(memory)
    }

    unsafe fn free(&self, memory: u64) {
        if !self.own.pools {
            // SAFETY: without pools `alloc` took it from `alloc_signals`. It is freed once, after
            // its last use: `Memory::free` demands it.
            return unsafe { self.free_signals(memory) };
        }
        if self.bind().is_ok() {
            // SAFETY: it came from the pool, once. Of a lost device there is nothing to free.
            let _ = unsafe { self.driver.cuMemFreeAsync(memory, self.housekeeping) };
        }
    }

    fn waits_to_free(&self) -> bool {
        !self.own.pools
    }

    fn trim(&self) -> Result<()> {
        if !self.own.pools || self.driver.cuMemPoolTrimTo.is_none() {
            return Ok(());
        }
        self.bind()?;
        let pool = self.pool()?;
        // SAFETY: the stream is this context's. The pool gives back what is not allocated.
        unsafe {
            self.driver.cuStreamSynchronize(self.housekeeping)?; // what was freed is free then
            self.driver.cuMemPoolTrimTo(pool, 0)
        }
    }

    fn alloc_host(&self, bytes: usize) -> Result<(*mut u8, u64)> {
        self.bind()?;
        let host = self.pinned(bytes)?;
        let mut device = 0;
        // SAFETY: the memory is the host's and `bytes` long at least; the pointer is valid for the
        // call.
        unsafe {
            let mapped = self.driver.cuMemHostGetDevicePointer_v2(&mut device, host.cast(), 0);
            mapped.inspect_err(|_| self.free_host(host))?;
            std::ptr::write_bytes(host, 0, bytes);
        }
        Ok((host, device))
    }

    /// `cuMemFreeHost` would wait for all work on the device.
    unsafe fn free_host(&self, host: *mut u8) {
        self.pinned.lock().give_back(host as u64);
    }

    unsafe fn register_host(&self, host: *mut u8, bytes: usize) -> Result<u64> {
        /// `CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP`
        const FLAGS: c_uint = 3;
        self.bind()?;
        let mut device = 0;
        // SAFETY: the bytes are there until they are unregistered: `Memory::register_host` demands
        // it. The pointer is valid for the calls.
        unsafe {
            let done = self.driver.cuMemHostRegister_v2(host.cast(), bytes, FLAGS);
            done.map_err(unpinned)?;
            let mapped = self.driver.cuMemHostGetDevicePointer_v2(&mut device, host.cast(), 0);
            mapped.inspect_err(|_| self.unregister_host(host))?;
        }
        Ok(device)
    }

    unsafe fn unregister_host(&self, host: *mut u8) {
        if self.bind().is_ok() {
            // SAFETY: it was registered, once.
            let _ = unsafe { self.driver.cuMemHostUnregister(host.cast()) };
        }
    }

    fn open_shared(&self, handle: &[u8; 64]) -> Result<(u64, usize)> {
        self.open_ipc(handle)
    }

    unsafe fn close_shared(&self, memory: u64) {
        // SAFETY: `memory` came from `open_ipc`, is closed once, and no work uses it:
        // `Memory::close_shared` demands it.
        unsafe { self.close_ipc(memory) };
    }

    fn alloc_gate(&self) -> Result<GateSignal> {
        let (host, device) = self.alloc_host(size_of::<u32>())?;
        Ok(GateSignal { host: host.cast(), device })
    }

    unsafe fn free_gate(&self, signal: GateSignal) {
        // SAFETY: `alloc_gate` took it from `alloc_host`. It is freed once, and no stream waits for
        // it: `Memory::free_gate` demands it.
        unsafe { self.free_host(signal.host.cast()) };
    }

    unsafe fn write(&self, to: u64, data: &[u8]) -> Result<()> {
        self.bind()?;
        let (driver, stream) = (self.driver, self.housekeeping);
        // SAFETY: the bytes from `to` on are memory of this device that no work uses:
        // `Memory::write` demands it. The call waits, so `data` outlives the copy.
        unsafe {
            driver.cuMemcpyHtoDAsync_v2(to, data.as_ptr().cast(), data.len(), stream)?;
            driver.cuStreamSynchronize(stream)
        }
    }

    unsafe fn read(&self, from: u64, data: &mut [u8]) -> Result<()> {
        self.bind()?;
        let (driver, stream) = (self.driver, self.housekeeping);
        // SAFETY: the bytes from `from` on are memory of this device that no work writes:
        // `Memory::read` demands it. The call waits, so `data` outlives the copy.
        unsafe {
            driver.cuMemcpyDtoHAsync_v2(data.as_mut_ptr().cast(), from, data.len(), stream)?;
            driver.cuStreamSynchronize(stream)
        }
    }
}

impl Context {
    /// Pinned memory that was given back, or else new.
    fn pinned(&self, bytes: usize) -> Result<*mut u8> {
        /// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`
        const FLAGS: c_uint = 3;
        if let Some(host) = self.pinned.lock().take(bytes) {
            return Ok(host as *mut u8);
        }
        let mut host = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the calls.
        let mut alloc = || unsafe { self.driver.cuMemHostAlloc(&mut host, place(bytes), FLAGS) };
        let done = alloc().or_else(|_| {
            self.release_pinned();
            alloc()
        });
        done.map_err(|error| with_asked(error, bytes))?;
        self.pinned.lock().add(host as u64, bytes);
        Ok(host.cast())
    }

    /// Gives what is kept back to the driver, which waits for all work on the device.
    pub(crate) fn release_pinned(&self) {
        // The guard ends with this statement: giving back to the list must not wait for what
        // follows.
        let free = self.pinned.lock().drain_free();
        for host in free {
            // SAFETY: it came from `cuMemHostAlloc`, and is not in use.
            let _ = unsafe { self.driver.cuMemFreeHost(host as *mut c_void) };
        }
    }

    /// Clears what was allocated just now.
    pub(crate) fn zero(&self, memory: CUdeviceptr, bytes: usize) -> Result<()> {
        // SAFETY: the fill stays inside what was allocated.
        unsafe {
            self.driver.cuMemsetD8Async(memory, 0, bytes, self.housekeeping)?;
            self.driver.cuStreamSynchronize(self.housekeeping)
        }
    }

    /// Lets the pool keep what is freed until a [`trim`](Memory::trim): giving it back to the
    /// system takes milliseconds.
    pub(crate) fn keep_freed_memory(&self) -> Result<()> {
        /// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`
        const RELEASE_THRESHOLD: c_uint = 4;
        if !self.own.pools {
            return Ok(());
        }
        let (pool, mut all) = (self.pool()?, u64::MAX);
        let all: *mut c_void = (&raw mut all).cast();
        // SAFETY: the pointer is valid for the call.
        unsafe { self.driver.cuMemPoolSetAttribute(pool, RELEASE_THRESHOLD, all) }
    }

    /// Returns the pool that memory comes from.
    fn pool(&self) -> Result<CUmemoryPool> {
        let mut pool = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call.
        unsafe { self.driver.cuDeviceGetDefaultMemPool(&mut pool, self.primary.device)? };
        Ok(pool)
    }
}

/// Reasons not to pin memory are many (limits, memory that was pinned before, some kinds of files),
/// and callers have another way.
fn unpinned(error: Error) -> Error {
    match error {
        Error::DeviceLost { .. } => error,
        other => {
            Error::Unsupported { backend: BACKEND, what: format!("this host memory: {other}") }
        }
    }
}
