//! When a process was last seen to do what, in nanoseconds of the system's clock. In its place in
//! the books.

use super::turn::Idle;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Who was seen at something so long ago still is.
const RECENT: u64 = 5_000_000;

/// Written by the process alone; read by all.
#[derive(Debug, Default)]
#[repr(C)]
pub(in crate::limit) struct Presence {
    /// When its work was last seen on the device, and when it last asked to begin some.
    pub(in crate::limit) worked: AtomicU64,
    pub(in crate::limit) wanted: AtomicU64,
    /// When it last looked at its work: who is alive does that all the time.
    pub(in crate::limit) looked: AtomicU64,
    /// When it last asked for a turn without getting one, and since when it has.
    pub(in crate::limit) claimed: AtomicU64,
    pub(in crate::limit) claims_since: AtomicU64,
    /// Until when its turn goes on, as it last found out.
    pub(in crate::limit) goes_on_until: AtomicU64,
    /// When it last got a turn.
    pub(in crate::limit) had: AtomicU64,
    pub(in crate::limit) idle: Idle,
}

impl Presence {
    /// Of a process that has just joined.
    pub(in crate::limit) fn clear(&self) {
        let Self { worked, wanted, looked, claimed, claims_since, goes_on_until, had, idle } = self;
        [worked, wanted, looked, claimed, claims_since, goes_on_until, had]
            .into_iter()
            .for_each(|of| of.store(0, Relaxed));
        idle.end();
        idle.begin(1);
    }

    /// Whether it works, or asks to.
    pub(in crate::limit) fn wants(&self, now: u64) -> bool {
        is_recent(self.worked.load(Relaxed).max(self.wanted.load(Relaxed)), now)
    }

    /// Whether it waits for a turn.
    pub(in crate::limit) fn claims(&self, now: u64) -> bool {
        is_recent(self.claimed.load(Relaxed), now)
    }

    /// Notes that it waits for a turn; returns since when it has.
    pub(in crate::limit) fn claim(&self, now: u64) -> u64 {
        if !self.claims(now) {
            self.claims_since.store(now, Relaxed);
        }
        self.claimed.store(now, Relaxed);
        self.claims_since.load(Relaxed)
    }

    /// Notes that it doesn't any more.
    pub(in crate::limit) fn claim_no_more(&self) {
        self.claimed.store(0, Relaxed);
    }
}

pub(in crate::limit) fn is_recent(then: u64, now: u64) -> bool {
    then > 0 && now.abs_diff(then) <= RECENT
}
