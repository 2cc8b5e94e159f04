//! Times of a process's last actions, in nanoseconds of `CLOCK_MONOTONIC`, in its slot of the
//! accounts file.

use super::turn::Idle;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Age up to which an action counts as current. Nanoseconds.
const RECENT: u64 = 5_000_000;

/// Times of a process's last actions. Written by the process alone, read by all.
#[derive(Debug, Default)]
#[repr(C)]
pub(in crate::limit) struct Presence {
    /// Last time at which its work was on the device, and at which it asked to begin work.
    pub(in crate::limit) worked: AtomicU64,
    pub(in crate::limit) wanted: AtomicU64,
    /// Last poll of its work: a live process polls all the time.
    pub(in crate::limit) polled: AtomicU64,
    /// Last request for a turn that was refused, and the first of these requests without a break.
    pub(in crate::limit) claimed: AtomicU64,
    pub(in crate::limit) claims_since: AtomicU64,
    /// Time until which its turn lasts, as it last found.
    pub(in crate::limit) goes_on_until: AtomicU64,
    /// Start of its last turn.
    pub(in crate::limit) had: AtomicU64,
    pub(in crate::limit) idle: Idle,
}

impl Presence {
    /// Resets the times, for a process that has just joined.
    pub(in crate::limit) fn clear(&self) {
        let Self { worked, wanted, polled, claimed, claims_since, goes_on_until, had, idle } = self;
        [worked, wanted, polled, claimed, claims_since, goes_on_until, had]
            .into_iter()
            .for_each(|of| of.store(0, Relaxed));
        idle.end();
        idle.begin(1);
    }

    /// Returns whether it works, or asks to begin work.
    pub(in crate::limit) fn wants(&self, now: u64) -> bool {
        is_recent(self.worked.load(Relaxed).max(self.wanted.load(Relaxed)), now)
    }

    /// Returns whether it waits for a turn.
    pub(in crate::limit) fn claims(&self, now: u64) -> bool {
        is_recent(self.claimed.load(Relaxed), now)
    }

    /// Notes that it waits for a turn. Returns the time since which it has waited.
    pub(in crate::limit) fn claim(&self, now: u64) -> u64 {
        if !self.claims(now) {
            self.claims_since.store(now, Relaxed);
        }
        self.claimed.store(now, Relaxed);
        self.claims_since.load(Relaxed)
    }

    /// Notes that it no longer waits for a turn.
    pub(in crate::limit) fn claim_no_more(&self) {
        self.claimed.store(0, Relaxed);
    }
}

pub(in crate::limit) fn is_recent(then: u64, now: u64) -> bool {
    then > 0 && now.abs_diff(then) <= RECENT
}
