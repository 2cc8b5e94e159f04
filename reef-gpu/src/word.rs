//! Words of the host that the device writes and the host polls: events and progress. And words of the
//! device that its streams write and kernels look at.
//!
//! The device writing to the host is cheap; the host asking the driver, or the device polling the host,
//! is not. Each word has a cache line of its own.

use crate::context::Context;
use crate::vendor::Vendor;
use reef_core::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes of one word's place.
const PLACE: usize = 64;
/// Places that are allocated together.
const PAGE: usize = 64;

/// Bytes of a device word's place: its cache line and those that are fetched with it.
const DEVICE_PLACE: usize = 256;

/// Places that nobody uses, and the pages that they are part of.
#[derive(Debug, Default)]
pub(crate) struct Words {
    free: Vec<(*mut u8, u64)>,
    pages: Vec<*mut u8>,
    device_free: Vec<u64>,
    device_pages: Vec<u64>,
}

// SAFETY: what the pointers are to is used only by who has taken them out.
unsafe impl Send for Words {}

impl Words {
    /// Gives the pages back.
    pub(crate) fn free(self, vendor: &impl Vendor) {
        self.pages.into_iter().for_each(|page| vendor.free_host(page));
        self.device_pages.into_iter().for_each(|page| vendor.free_words(page));
    }
}

/// A word in the device's memory, zero at first.
///
/// Not of the memory of buffers, where not every driver's streams can write words.
#[derive(Debug)]
pub(crate) struct DeviceWord<V: Vendor> {
    address: u64,
    context: Arc<Context<V>>,
}

impl<V: Vendor> DeviceWord<V> {
    pub(crate) fn new(context: &Arc<Context<V>>) -> Result<Self> {
        let mut words = context.words.lock();
        if words.device_free.is_empty() {
            let page = context.call().alloc_words(DEVICE_PLACE * PAGE)?;
            words.device_pages.push(page);
            words.device_free.extend((0..PAGE).map(|i| page + (i * DEVICE_PLACE) as u64));
        }
        let address = words.device_free.pop().expect("filled above");
        drop(words);
        let word = Self { address, context: context.clone() };
        context.call().write(address, &0u32.to_ne_bytes())?;
        Ok(word)
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl<V: Vendor> Drop for DeviceWord<V> {
    fn drop(&mut self) {
        if let Some(mut words) = self.context.words_to_free() {
            words.device_free.push(self.address);
        }
    }
}

/// A word in the host's memory, zero at first.
#[derive(Debug)]
pub(crate) struct Word<V: Vendor> {
    host: *mut u8,
    device: u64,
    context: Arc<Context<V>>,
}

// SAFETY: the memory is the context's, and all access is atomic.
unsafe impl<V: Vendor> Send for Word<V> {}
// SAFETY: as above.
unsafe impl<V: Vendor> Sync for Word<V> {}

impl<V: Vendor> Word<V> {
    pub(crate) fn new(context: &Arc<Context<V>>) -> Result<Self> {
        let mut words = context.words.lock();
        if words.free.is_empty() {
            let (host, device) = context.call().alloc_host(PLACE * PAGE)?;
            words.pages.push(host);
            for i in 0..PAGE {
                // SAFETY: inside what was allocated.
                words.free.push((unsafe { host.add(i * PLACE) }, device + (i * PLACE) as u64));
            }
        }
        let (host, device) = words.free.pop().expect("filled above");
        drop(words);
        let word = Self { host, device, context: context.clone() };
        word.set(0);
        Ok(word)
    }

    /// Where the device writes.
    pub(crate) fn address(&self) -> u64 {
        self.device
    }

    /// The 32-bit value. What the device wrote before it is seen as well.
    pub(crate) fn get32(&self) -> u32 {
        // SAFETY: the place is ours, aligned, and written by the device in one piece.
        unsafe { AtomicU32::from_ptr(self.host.cast()) }.load(Ordering::Acquire)
    }

    pub(crate) fn get(&self) -> u64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.host.cast()) }.load(Ordering::Acquire)
    }

    /// Only while nothing on the device writes it.
    pub(crate) fn set(&self, value: u64) {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.host.cast()) }.store(value, Ordering::Release);
    }
}

impl<V: Vendor> Drop for Word<V> {
    fn drop(&mut self) {
        if let Some(mut words) = self.context.words_to_free() {
            words.free.push((self.host, self.device));
        }
    }
}
