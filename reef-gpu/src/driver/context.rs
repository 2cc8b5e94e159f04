//! State that all parts of one open device share: the vendor's part, and signals that host and
//! device both see.

use crate::driver::call_tracker::{CallGuard, CallTracker};
use crate::driver::signal_pool::SignalPool;
use crate::hal::calls::{StreamKind, Vendor};
use crate::hal::free_list::FreeList;
use parking_lot::{Mutex, MutexGuard};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An open device.
#[derive(Debug)]
pub(crate) struct Context<V: Vendor> {
    pub(crate) signals: Mutex<SignalPool>,
    pub(crate) calls: CallTracker,
    /// Streams that are not in use: opening and closing them takes locks of the driver for long.
    pub(crate) streams: Mutex<Vec<(StreamKind, V::Stream)>>,
    /// Device memory whose contents don't matter, for whatever asks next.
    pub(crate) scratch: Mutex<FreeList>,
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
    /// The vendor's part, for one call of the driver: see `calls.rs`.
    pub(crate) fn call(&self) -> Driver<'_, V> {
        Driver { vendor: &self.vendor, _call: self.calls.enter() }
    }

    pub(crate) fn new(vendor: V) -> Self {
        Self {
            signals: Mutex::default(),
            calls: CallTracker::default(),
            streams: Mutex::default(),
            scratch: Mutex::default(),
            lost: AtomicBool::new(false),
            vendor,
        }
    }

    /// A stream of this kind that was closed, if one is kept.
    pub(crate) fn kept_stream(&self, kind: StreamKind) -> Option<V::Stream> {
        let mut kept = self.streams.lock();
        let at = kept.iter().position(|(of, _)| *of == kind)?;
        Some(kept.swap_remove(at).1)
    }

    /// Keeps a stream that is idle and that has no other owner.
    pub(crate) fn keep_stream(&self, kind: StreamKind, stream: V::Stream) {
        self.streams.lock().push((kind, stream));
    }

    /// A stream is left alone with what is in it. That may still use anything, so from now on
    /// nothing is given back to the driver or used again, and the device stays open.
    pub(crate) fn give_up(self: &Arc<Self>) {
        if !self.lost.swap(true, Ordering::SeqCst) {
            std::mem::forget(self.clone());
        }
    }

    /// Returns whether a stream was given up. Then everything may still be in use.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }

    /// The vendor's part to give something back, unless that may still be in use.
    pub(crate) fn call_to_free(&self) -> Option<Driver<'_, V>> {
        (!self.is_lost()).then(|| self.call())
    }

    /// The signals to give one back, unless that may still be in use.
    pub(crate) fn signals_to_free(&self) -> Option<MutexGuard<'_, SignalPool>> {
        (!self.is_lost()).then(|| self.signals.lock())
    }
}

impl<V: Vendor> Drop for Context<V> {
    fn drop(&mut self) {
        let vendor = &self.vendor;
        // SAFETY: each handle has kept this, so none is left; after a stream was given up this is
        // never dropped.
        unsafe {
            self.streams.get_mut().drain(..).for_each(|(_, stream)| vendor.close_stream(stream));
            self.scratch.get_mut().drain_free().into_iter().for_each(|place| vendor.free(place));
            std::mem::take(self.signals.get_mut()).free(vendor);
        }
    }
}
