//! Devices with limits, by their ordinals in this process.

use super::refusal::say;
use super::slot_thread::SlotThread;
use crate::driver::calls::{self, Stream};
use crate::explain;
use crate::settings::settings;
use reef_guest::limit::{Account, format_bytes};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Once, OnceLock};

/// Maximum devices of a process with limits.
const MAX_DEVICES: usize = 16;

/// Devices by their ordinals. `None`: the accounts file can't be joined.
static DEVICES: [OnceLock<Option<Limited>>; MAX_DEVICES] = [const { OnceLock::new() }; MAX_DEVICES];

/// Device whose memory or time is limited.
#[derive(Debug)]
pub(crate) struct Limited {
    pub(crate) ordinal: i32,
    account: Account,
    slot_thread: &'static SlotThread,
    /// Allocations that were refused.
    refused: AtomicU64,
}

/// Limit state of a device, which decides on allocations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LimitState {
    /// There is no limit.
    Unlimited,
    /// An allocation has to be reserved first.
    Limited(&'static Limited),
    /// There is a limit that can't be kept: allocations are refused.
    Broken,
}

/// Returns the limit state of the current context's device. Without a context the driver returns
/// the error.
pub(crate) fn current() -> LimitState {
    calls::device().map_or(LimitState::Unlimited, of)
}

/// Returns the device of a `CUmemLocation`: `CU_MEM_LOCATION_TYPE_DEVICE`, and
/// `…_DEVICE_LOCALITY_DOMAIN`, whose first byte is the device. `None`: it isn't one.
pub(crate) fn at(location: u32, ordinal: i32) -> Option<i32> {
    match location {
        1 => Some(ordinal),
        6 => Some(ordinal & 0xff),
        _ => None,
    }
}

/// Returns the limit state of a stream's device, which may differ from the current context's
/// device.
pub(crate) fn of_stream(stream: Stream) -> LimitState {
    calls::in_context(calls::stream_context(stream), current)
}

/// Returns the limit state of a device. The first call joins the accounts file.
pub(crate) fn of(ordinal: i32) -> LimitState {
    let number = u32::try_from(ordinal).unwrap_or(u32::MAX);
    match &settings().limits {
        Ok(None) => return LimitState::Unlimited,
        Ok(Some(limits))
            if limits.memory_of(number).is_none() && limits.compute_of(number).is_none() =>
        {
            return LimitState::Unlimited;
        }
        _ => {}
    }
    let Some(device) = DEVICES.get(number as usize) else { return LimitState::Broken };
    let joined = match device.get() {
        Some(joined) => joined,
        None => match calls::uuid(ordinal) {
            Some(uuid) => device.get_or_init(|| join(ordinal, uuid)),
            // There is no such device, or not yet: the program may call cuInit after this.
            None => return LimitState::Broken,
        },
    };
    joined.as_ref().map_or(LimitState::Broken, LimitState::Limited)
}

/// Returns the limit of a device in bytes, joined or not.
pub(crate) fn limit(ordinal: i32) -> Option<u64> {
    let limits = settings().limits.as_ref().ok()?.as_ref()?;
    limits.memory_of(u32::try_from(ordinal).ok()?)
}

fn join(ordinal: i32, uuid: [u8; 16]) -> Option<Limited> {
    let started = match &settings().limits {
        Ok(Some(limits)) => SlotThread::start(limits, uuid, ordinal as u32),
        Ok(None) => Err("no limit".into()), // `of` has looked
        Err(why) => Err(why.clone()),
    };
    match started {
        Ok((slot_thread, account)) => {
            let limited = Limited { ordinal, account, slot_thread, refused: AtomicU64::new(0) };
            Some(limited)
        }
        Err(why) => {
            say(&format!("{why}: all memory is refused"));
            None
        }
    }
}

/// Adds lines about the limits to the report.
pub(crate) fn explain_limits() {
    static ONCE: Once = Once::new();
    let line = |limited: &Limited| {
        let (used, refused) = (format_bytes(limited.account.used()), limited.refused.load(Relaxed));
        let most = limit(limited.ordinal).map_or("all".into(), format_bytes);
        format!("  device {}: memory {used} of {most}, {refused} refused\n", limited.ordinal)
    };
    let joined = || DEVICES.iter().filter_map(|device| device.get()?.as_ref());
    ONCE.call_once(|| explain::add(move || joined().map(line).collect()));
}

impl Limited {
    /// Reserves bytes. If there is no room, first reclaims memory of dead processes. Returns false
    /// if the bytes are refused.
    pub(crate) fn reserve(&self, bytes: u64) -> bool {
        if self.account.reserve(bytes).is_ok() {
            return true;
        }
        self.slot_thread.reclaim();
        let is_reserved = self.account.reserve(bytes).is_ok();
        if !is_reserved {
            self.count_refusal();
        }
        is_reserved
    }

    /// Counts a refusal. Reports a limit that is below the memory of contexts: no allocation could
    /// ever succeed.
    #[cold]
    pub(crate) fn count_refusal(&self) {
        self.refused.fetch_add(1, Relaxed);
        self.account.note_refused();
        let (overhead, limit) = (self.account.overhead(), self.account.limit());
        if overhead >= limit {
            let [overhead, limit] = [overhead, limit].map(format_bytes);
            say(&format!(
                "device {}: a limit of {limit} is below the {overhead} that contexts take: all memory is refused",
                self.ordinal
            ));
        }
    }

    /// Reserves bytes if there is room. Doesn't reclaim memory of dead processes, and counts no
    /// refusal.
    pub(crate) fn try_reserve(&self, bytes: u64) -> bool {
        self.account.reserve(bytes).is_ok()
    }

    /// Returns whether the job has more than its limit.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.account.used() > self.account.limit()
    }

    /// Adds bytes that the driver has allocated already.
    pub(crate) fn add(&self, bytes: u64) {
        self.account.add(bytes);
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.account.give_back(bytes);
    }

    /// Returns the account of this process.
    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// Returns the bytes left of the limit.
    pub(crate) fn remaining(&self) -> u64 {
        self.account.limit().saturating_sub(self.account.used())
    }
}
