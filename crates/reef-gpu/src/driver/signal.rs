//! Words of the host that the device writes and the host polls: events and timeline. And words of
//! the device that its streams write and kernels check.
//!
//! The device writing to the host is cheap; the host asking the driver, or the device polling the
//! host, is not. Each word has a cache line of its own.

use crate::driver::context::Context;
use crate::driver::control_stream::ControlStream;
use crate::hal::calls::Vendor;
use reef_core::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A word in the device's memory, zero at first.
///
/// Not of the memory of buffers, where not every driver's streams can write words.
#[derive(Debug)]
pub(crate) struct DeviceSignal<V: Vendor> {
    address: u64,
    context: Arc<Context<V>>,
}

impl<V: Vendor> DeviceSignal<V> {
    /// Set to zero by the device itself, as all that is written to it later: a place that was used
    /// before may be in a cache of the device's that no copy of the host's reaches. Blocks until
    /// that has happened.
    pub(crate) fn new(control: &ControlStream<V>) -> Result<Self> {
        let context = control.context();
        let alloc = |bytes| context.call().alloc_signals(bytes);
        let address = context.signals.lock().take_device(alloc)?;
        let word = Self { address, context: context.clone() };
        control.write(address, 0)?;
        control.wait()?;
        Ok(word)
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl<V: Vendor> Drop for DeviceSignal<V> {
    fn drop(&mut self) {
        self.context.signals.lock().give_back_device(self.address);
    }
}

/// A word in the host's memory, zero at first.
#[derive(Debug)]
pub(crate) struct HostSignal<V: Vendor> {
    host: *mut u8,
    device: u64,
    context: Arc<Context<V>>,
}

// SAFETY: the memory is the context's, and all access is atomic.
unsafe impl<V: Vendor> Send for HostSignal<V> {}
// SAFETY: methods take `&self`, and reach the word by atomics alone.
unsafe impl<V: Vendor> Sync for HostSignal<V> {}

impl<V: Vendor> HostSignal<V> {
    pub(crate) fn new(context: &Arc<Context<V>>) -> Result<Self> {
        let alloc = |bytes| context.call().alloc_host(bytes);
        let (host, device) = context.signals.lock().take_host(alloc)?;
        let word = Self { host, device, context: context.clone() };
        word.set(0);
        Ok(word)
    }

    /// Address that the device writes to.
    pub(crate) fn address(&self) -> u64 {
        self.device
    }

    /// The 32-bit value. What the device wrote before it is seen as well.
    pub(crate) fn get32(&self) -> u32 {
        // SAFETY: the place is ours, aligned, and written by the device in one piece.
        unsafe { AtomicU32::from_ptr(self.host.cast()) }.load(Ordering::Acquire)
    }

    pub(crate) fn get(&self) -> u64 {
        // SAFETY: the place has 64 bytes, is aligned, and is this signal's until it is dropped.
        // Host and device write it in whole words.
        unsafe { AtomicU64::from_ptr(self.host.cast()) }.load(Ordering::Acquire)
    }

    /// As the device does.
    #[cfg(test)]
    pub(crate) fn set_from_device(&self, value: u32) {
        // SAFETY: the place has 64 bytes, is aligned, and is this signal's until it is dropped.
        // Host and device write it in whole words.
        unsafe { AtomicU32::from_ptr(self.host.cast()) }.store(value, Ordering::SeqCst);
    }

    /// Only while nothing on the device writes it.
    pub(crate) fn set(&self, value: u64) {
        // SAFETY: the place has 64 bytes, is aligned, and is this signal's until it is dropped.
        unsafe { AtomicU64::from_ptr(self.host.cast()) }.store(value, Ordering::Release);
    }
}

impl<V: Vendor> Drop for HostSignal<V> {
    fn drop(&mut self) {
        self.context.signals.lock().give_back_host((self.host, self.device));
    }
}
