//! What everything of one open device shares: the vendor's part, and words that host and device both see.

use crate::calls::Calls;
use crate::vendor::Vendor;
use crate::word::Words;
use parking_lot::Mutex;

/// An open device.
#[derive(Debug)]
pub(crate) struct Context<V: Vendor> {
    pub(crate) words: Mutex<Words>,
    pub(crate) calls: Calls,
    pub(crate) vendor: V,
}

impl<V: Vendor> Context<V> {
    pub(crate) fn new(vendor: V) -> Self {
        Self { words: Mutex::default(), calls: Calls::default(), vendor }
    }
}

impl<V: Vendor> Drop for Context<V> {
    fn drop(&mut self) {
        std::mem::take(self.words.get_mut()).free(&self.vendor);
    }
}
