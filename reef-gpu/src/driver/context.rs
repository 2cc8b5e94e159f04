//! What everything of one open device shares: the vendor's part, and signals that host and device both see.

use crate::driver::call_tracker::{CallGuard, CallTracker};
use crate::driver::signal_pool::SignalPool;
use crate::vendor::calls::Vendor;
use parking_lot::{Mutex, MutexGuard};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An open device.
#[derive(Debug)]
pub(crate) struct Context<V: Vendor> {
    pub(crate) signals: Mutex<SignalPool>,
    pub(crate) calls: CallTracker,
    /// A stream was given up with what is in it.
    lost: AtomicBool,
    pub(crate) vendor: V,
}

/// The vendor's part while it is called.
pub(crate) struct Driver<'a, V> {
    vendor: &'a V,
    _call: CallGuard<'a>,
}

impl<V> Deref for Driver<'_, V> {
    type Target = V;

    fn deref(&self) -> &V {
        self.vendor
    }
}

impl<V: Vendor> Context<V> {
    /// For one call of the driver: see `calls.rs`.
    pub(crate) fn call(&self) -> Driver<'_, V> {
        Driver { vendor: &self.vendor, _call: self.calls.enter() }
    }

    pub(crate) fn new(vendor: V) -> Self {
        let (signals, calls, lost) =
            (Mutex::default(), CallTracker::default(), AtomicBool::new(false));
        Self { signals, calls, lost, vendor }
    }

    /// A stream is left alone with what is in it. That may still use anything, so from now on nothing is
    /// given back to the driver or used again, and the device stays open.
    pub(crate) fn give_up(self: &Arc<Self>) {
        if !self.lost.swap(true, Ordering::SeqCst) {
            std::mem::forget(self.clone());
        }
    }

    /// The vendor's part to give something back, unless that may still be in use.
    pub(crate) fn call_to_free(&self) -> Option<Driver<'_, V>> {
        (!self.lost.load(Ordering::SeqCst)).then(|| self.call())
    }

    /// The signals to give one back, unless that may still be in use.
    pub(crate) fn signals_to_free(&self) -> Option<MutexGuard<'_, SignalPool>> {
        (!self.lost.load(Ordering::SeqCst)).then(|| self.signals.lock())
    }
}

impl<V: Vendor> Drop for Context<V> {
    fn drop(&mut self) {
        // SAFETY: each signal has kept this; after a stream was given up this is never dropped.
        unsafe { std::mem::take(self.signals.get_mut()).free(&self.vendor) };
    }
}
