//! Passes: what each guest is allowed while real-time programs are busy, and what it had.

use crate::colocation::allowance::Allowance;
use crate::page::mapping::Mapping;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Allowance of a guest, and its use. It is in the daemon's memory alone.
#[derive(Debug, Default)]
pub(super) struct Pass {
    pub(super) allowance: Allowance,
    /// Name of the guest: guests with the same one are the same program, now and later.
    pub(super) name: u64,
    /// Part of the time that passes now, in parts per million. Written by relays.
    duty: AtomicU32,
    /// Nanoseconds in which a best-effort guest passed although a real-time guest was busy.
    /// Written by relays.
    passed: AtomicU64,
    /// Growth of a real-time guest's latency, in thousandths; zero: not measured. Written by its
    /// relay.
    growth: AtomicU32,
    /// Measurements of a real-time guest alone for which its peers were held for long. Written by
    /// its relay.
    long_silences: AtomicU64,
}

impl Pass {
    pub(super) fn new(allowance: Allowance, name: u64) -> Self {
        Self { allowance, name, ..Self::default() }
    }

    pub(super) fn set_duty(&self, duty: u32) {
        self.duty.store(duty, Relaxed);
    }

    pub(super) fn duty(&self) -> u32 {
        self.duty.load(Relaxed)
    }

    pub(super) fn note_passed(&self, nanos: u64) {
        self.passed.fetch_add(nanos, Relaxed);
    }

    pub(super) fn passed(&self) -> Duration {
        Duration::from_nanos(self.passed.load(Relaxed))
    }

    pub(super) fn set_growth(&self, growth: f64) {
        self.growth.store((growth * 1000.0) as u32, Relaxed);
    }

    pub(super) fn set_long_silences(&self, count: u64) {
        self.long_silences.store(count, Relaxed);
    }

    pub(super) fn long_silences(&self) -> u64 {
        self.long_silences.load(Relaxed)
    }

    pub(super) fn growth(&self) -> Option<f64> {
        Some(self.growth.load(Relaxed)).filter(|of| *of > 0).map(|of| f64::from(of) / 1000.0)
    }
}

/// Best-effort guest, as its holders see it.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) page: Arc<Mapping>,
    pub(super) pass: Arc<Pass>,
}

impl Peer {
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.page, &other.page)
    }
}
