//! Memory of the device, of the host, and the words that streams wait for.
//!
//! | for | is | because |
//! |---|---|---|
//! | buffers, words that kernels poll | `hipMalloc`, coarse-grained | the stream's write is a kernel of the runtime, so it meets the polling kernels in the second-level cache; polling the host's memory crosses the bus |
//! | words that the host polls | `hipHostMalloc`, coherent | the host sees what a kernel writes while it runs |
//! | gates | signal memory | the queue's own processor waits for it; waiting for any other memory is a kernel that spins and occupies the queue |
//!
//! Copies go through a stream of ours, never through the null stream, which would wait for others.

use crate::context::Context;
use crate::driver::BACKEND;
use crate::pools::{Kind, SIGNAL};
use reef_core::{Error, Result};
use reef_gpu::{GateSignal, Memory};
use std::ffi::c_void;

// SAFETY: allocations are the driver's, cleared before they are given; addresses and sizes are
// those that it says.
unsafe impl Memory for Context {
    /// Waits for other work only if there is no memory left otherwise.
    fn alloc(&self, bytes: usize) -> Result<u64> {
        self.bind()?;
        let memory = self.memory.take(self.driver, Kind::Device, bytes)?;
        // SAFETY: allocated above, and used by nothing but the fill, which was refused.
        self.zero(memory, bytes).inspect_err(|_| unsafe { self.free(memory) })?;
        Ok(memory)
    }

    unsafe fn free(&self, memory: u64) {
        self.memory.give_back(Kind::Device, memory);
    }

    fn alloc_host(&self, bytes: usize) -> Result<(*mut u8, u64)> {
        self.bind()?;
        let host = self.memory.take(self.driver, Kind::Host, bytes)? as *mut u8;
        let mut device = std::ptr::null_mut();
        // SAFETY: the memory is the host's and `bytes` long at least.
        unsafe {
            let mapped = self.driver.hipHostGetDevicePointer(&mut device, host.cast(), 0);
            mapped.inspect_err(|_| self.free_host(host))?;
            std::ptr::write_bytes(host, 0, bytes);
        }
        Ok((host, device as u64))
    }

    unsafe fn free_host(&self, host: *mut u8) {
        self.memory.give_back(Kind::Host, host as u64);
    }

    /// Returns `Unsupported`: where the device sees such memory at the host's address,
    /// `hipHostUnregister` of HIP 5.2 ends the process.
    unsafe fn register_host(&self, _: *mut u8, _: usize) -> Result<u64> {
        let what = "copies from and to host memory of others".into();
        Err(Error::Unsupported { backend: BACKEND, what })
    }

    unsafe fn unregister_host(&self, _: *mut u8) {}

    /// Returns `Unsupported`.
    fn open_shared(&self, _: &[u8; 64]) -> Result<(u64, usize)> {
        let what = "device memory of other processes".into();
        Err(Error::Unsupported { backend: BACKEND, what })
    }

    unsafe fn close_shared(&self, _: u64) {}

    /// The host's address and the device's are the same.
    fn alloc_gate(&self) -> Result<GateSignal> {
        self.bind()?;
        let address = self.memory.take(self.driver, Kind::Signal, SIGNAL)?;
        // SAFETY: signal memory is the host's, 8 bytes, and no stream waits for it yet.
        unsafe { (address as *mut u64).write_volatile(0) };
        Ok(GateSignal { host: address as *mut u32, device: address })
    }

    unsafe fn free_gate(&self, signal: GateSignal) {
        self.memory.give_back(Kind::Signal, signal.device);
    }

    unsafe fn write(&self, to: u64, data: &[u8]) -> Result<()> {
        self.bind()?;
        let (driver, stream) = (self.driver, self.housekeeping.0);
        // SAFETY: the bytes from `to` on are memory of this device that no work uses:
        // `Memory::write` demands it. The call waits, so `data` outlives the copy.
        unsafe {
            let to = to as *mut c_void;
            driver.hipMemcpyHtoDAsync(to, data.as_ptr().cast(), data.len(), stream)?;
            driver.hipStreamSynchronize(stream)
        }
    }

    unsafe fn read(&self, from: u64, data: &mut [u8]) -> Result<()> {
        self.bind()?;
        let (driver, stream) = (self.driver, self.housekeeping.0);
        // SAFETY: the bytes from `from` on are memory of this device that no work writes:
        // `Memory::read` demands it. The call waits, so `data` outlives the copy.
        unsafe {
            let from = from as *mut c_void;
            driver.hipMemcpyDtoHAsync(data.as_mut_ptr().cast(), from, data.len(), stream)?;
            driver.hipStreamSynchronize(stream)
        }
    }
}

impl Context {
    /// Clears what was allocated just now.
    fn zero(&self, memory: u64, bytes: usize) -> Result<()> {
        let stream = self.housekeeping.0;
        // SAFETY: the fill stays inside what was allocated.
        unsafe {
            self.driver.hipMemsetAsync(memory as *mut c_void, 0, bytes, stream)?;
            self.driver.hipStreamSynchronize(stream)
        }
    }
}
