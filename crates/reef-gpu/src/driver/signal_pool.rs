//! Places of signals that are not in use, and the pages that they are part of.

use crate::hal::calls::Vendor;
use reef_core::Result;

/// Bytes of one host signal's place.
const PLACE: usize = 64;
/// Places that are allocated together.
const PAGE: usize = 64;

/// Bytes of a device signal's place: its cache line and those that are fetched with it.
const DEVICE_PLACE: usize = 256;

/// Places that are not in use, and the pages that they are part of.
#[derive(Debug, Default)]
pub(crate) struct SignalPool {
    free: Vec<(*mut u8, u64)>,
    pages: Vec<*mut u8>,
    device_free: Vec<u64>,
    device_pages: Vec<u64>,
}

// SAFETY: memory that the pointers lead to is used only after they were taken out, by one owner.
unsafe impl Send for SignalPool {}

impl SignalPool {
    /// A place of the host's memory, where the host sees it and where the device does; `alloc`
    /// makes more.
    pub(crate) fn take_host(
        &mut self,
        alloc: impl FnOnce(usize) -> Result<(*mut u8, u64)>,
    ) -> Result<(*mut u8, u64)> {
        if self.free.is_empty() {
            let (host, device) = alloc(PLACE * PAGE)?;
            self.pages.push(host);
            for i in 0..PAGE {
                // SAFETY: inside what was allocated.
                self.free.push((unsafe { host.add(i * PLACE) }, device + (i * PLACE) as u64));
            }
        }
        Ok(self.free.pop().expect("filled above"))
    }

    pub(crate) fn give_back_host(&mut self, place: (*mut u8, u64)) {
        self.free.push(place);
    }

    /// A place of the device's memory; `alloc` makes more.
    pub(crate) fn take_device(&mut self, alloc: impl FnOnce(usize) -> Result<u64>) -> Result<u64> {
        if self.device_free.is_empty() {
            let page = alloc(DEVICE_PLACE * PAGE)?;
            self.device_pages.push(page);
            self.device_free.extend((0..PAGE).map(|i| page + (i * DEVICE_PLACE) as u64));
        }
        Ok(self.device_free.pop().expect("filled above"))
    }

    pub(crate) fn give_back_device(&mut self, place: u64) {
        self.device_free.push(place);
    }

    /// Gives the pages back.
    ///
    /// # Safety
    ///
    /// They came from `vendor`, and no work uses a place of them any more.
    pub(crate) unsafe fn free(self, vendor: &impl Vendor) {
        // SAFETY: all pages came from `vendor`, each is in its list once, and no work uses a place
        // of them: `free` demands it.
        unsafe {
            self.pages.into_iter().for_each(|page| vendor.free_host(page));
            self.device_pages.into_iter().for_each(|page| vendor.free_signals(page));
        }
    }
}
