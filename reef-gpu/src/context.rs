//! What everything of one open device shares: the vendor's part, and words that host and device both see.

use crate::calls::{Call, Calls};
use crate::vendor::Vendor;
use crate::word::Words;
use parking_lot::Mutex;
use std::ops::Deref;

/// An open device.
#[derive(Debug)]
pub(crate) struct Context<V: Vendor> {
    pub(crate) words: Mutex<Words>,
    pub(crate) calls: Calls,
    pub(crate) vendor: V,
}

/// The vendor's part while it is called.
pub(crate) struct Calling<'a, V> {
    vendor: &'a V,
    _call: Call<'a>,
}

impl<V> Deref for Calling<'_, V> {
    type Target = V;

    fn deref(&self) -> &V {
        self.vendor
    }
}

impl<V: Vendor> Context<V> {
    /// For one call of the driver: see `calls.rs`.
    pub(crate) fn call(&self) -> Calling<'_, V> {
        Calling { vendor: &self.vendor, _call: self.calls.enter() }
    }

    pub(crate) fn new(vendor: V) -> Self {
        Self { words: Mutex::default(), calls: Calls::default(), vendor }
    }
}

impl<V: Vendor> Drop for Context<V> {
    fn drop(&mut self) {
        std::mem::take(self.words.get_mut()).free(&self.vendor);
    }
}
