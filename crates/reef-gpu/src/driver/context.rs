//! State that all parts of one open device share: the vendor's part, and signals that host and
//! device both see.

use crate::driver::call_tracker::{CallGuard, CallTracker};
use crate::driver::signal_pool::SignalPool;
use crate::hal::calls::Vendor;
use crate::hal::free_list::FreeList;
use crate::hal::streams::StreamKind;
use parking_lot::Mutex;
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
    /// Streams that were left alone with what is in them, and may not be idle. Their queues keep
    /// for ever what that uses.
    abandoned: Mutex<Vec<V::Stream>>,
    /// The device is not closed, because a stream was left alone.
    stays_open: AtomicBool,
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
            abandoned: Mutex::default(),
            stays_open: AtomicBool::new(false),
            vendor,
        }
    }

    /// Returns whether both are of one device, so that work of one reaches memory of the other.
    pub(crate) fn is_same_device(&self, other: &Self) -> bool {
        let uuid = self.vendor.facts().uuid;
        std::ptr::eq(self, other) || (uuid.is_some() && uuid == other.vendor.facts().uuid)
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

    /// A stream is left alone with what is in it, and its queue keeps what that uses. So the device
    /// stays open; what others give back is used again.
    pub(crate) fn abandon(self: &Arc<Self>, stream: V::Stream) {
        if !self.stays_open.swap(true, Ordering::SeqCst) {
            std::mem::forget(self.clone());
        }
        self.abandoned.lock().push(stream);
    }

    /// The vendor's part for a call that waits until the whole device is idle. `None`: a stream
    /// that was left alone isn't, and the call might never return.
    pub(crate) fn call_that_waits(&self) -> Option<Driver<'_, V>> {
        let mut abandoned = self.abandoned.lock();
        // SAFETY: such a stream is never closed, and nothing is captured in it.
        abandoned.retain(|&stream| !unsafe { self.call().is_idle(stream) }.unwrap_or(false));
        abandoned.is_empty().then(|| self.call())
    }

    /// The vendor's part to free memory, unless that waits for what may never end.
    pub(crate) fn call_to_free(&self) -> Option<Driver<'_, V>> {
        if self.vendor.waits_to_free() { self.call_that_waits() } else { Some(self.call()) }
    }
}

impl<V: Vendor> Drop for Context<V> {
    fn drop(&mut self) {
        let vendor = &self.vendor;
        // SAFETY: each handle has kept this, so none is left; after a stream was left alone this
        // is never dropped.
        unsafe {
            self.streams.get_mut().drain(..).for_each(|(_, stream)| vendor.close_stream(stream));
            self.scratch.get_mut().drain_free().into_iter().for_each(|place| vendor.free(place));
            std::mem::take(self.signals.get_mut()).free(vendor);
        }
    }
}
