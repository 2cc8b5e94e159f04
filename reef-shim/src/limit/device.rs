//! Devices with limits, by their numbers in this process.

use super::refusal::say;
use super::slot_thread::SlotThread;
use crate::driver::calls::{self, Stream};
use crate::explain;
use crate::settings::settings;
use reef_guest::limit::{Account, format_bytes};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Once, OnceLock};

/// Most devices of a process that may have limits.
const MAX_DEVICES: usize = 16;

/// By their numbers. `None`: the books can't be joined.
static DEVICES: [OnceLock<Option<Limited>>; MAX_DEVICES] = [const { OnceLock::new() }; MAX_DEVICES];

/// A device whose memory or time is limited.
#[derive(Debug)]
pub(crate) struct Limited {
    pub(crate) ordinal: i32,
    account: Account,
    slot_thread: &'static SlotThread,
    /// Allocations that were refused.
    refused: AtomicU64,
}

/// What becomes of an allocation on a device.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LimitState {
    /// The driver decides alone.
    Unlimited,
    /// It has to be reserved first.
    Limited(&'static Limited),
    /// There is a limit, and no way to keep it: it is refused.
    Broken,
}

/// Where the current context's allocations stand. Without a context the driver says what is wrong.
pub(crate) fn current() -> LimitState {
    calls::device().map_or(LimitState::Unlimited, of)
}

/// Where allocations in a stream stand: it may be another device's than the current context.
pub(crate) fn of_stream(stream: Stream) -> LimitState {
    calls::in_context(calls::stream_context(stream), current)
}

/// Where a device's allocations stand. The first question joins the books.
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
    let limited = DEVICES.get(number as usize).map(|device| device.get_or_init(|| join(ordinal)));
    match limited {
        Some(Some(limited)) => LimitState::Limited(limited),
        Some(None) | None => LimitState::Broken,
    }
}

/// The limit of a device in bytes, joined or not.
pub(crate) fn limit(ordinal: i32) -> Option<u64> {
    let limits = settings().limits.as_ref().ok()?.as_ref()?;
    limits.memory_of(u32::try_from(ordinal).ok()?)
}

fn join(ordinal: i32) -> Option<Limited> {
    let started = match (&settings().limits, calls::uuid(ordinal)) {
        (Ok(Some(limits)), Some(uuid)) => SlotThread::start(limits, uuid, ordinal as u32),
        (Ok(Some(_)), None) => Err("the driver doesn't say which device this is".into()),
        (Ok(None), _) => Err("no limit".into()), // `of` has looked
        (Err(why), _) => Err(why.clone()),
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

/// Has the report say what became of the limits.
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
    /// Reserves bytes, after a look for the dead if there is no room. False: they are refused.
    pub(crate) fn reserve(&self, bytes: u64) -> bool {
        if self.account.reserve(bytes).is_ok() {
            return true;
        }
        self.slot_thread.reclaim();
        let is_reserved = self.account.reserve(bytes).is_ok();
        if !is_reserved {
            self.refuse();
        }
        is_reserved
    }

    /// Counts a refusal. A limit below what contexts take by themselves is said: no allocation
    /// could ever be made.
    #[cold]
    fn refuse(&self) {
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

    /// Returns whether so much fits, without a look for the dead and without counting a refusal.
    pub(crate) fn try_reserve(&self, bytes: u64) -> bool {
        self.account.reserve(bytes).is_ok()
    }

    /// Counts what the driver has taken already.
    pub(crate) fn add(&self, bytes: u64) {
        self.account.add(bytes);
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.account.give_back(bytes);
    }

    /// What the books say of this process's job.
    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// What is left of the limit, in bytes.
    pub(crate) fn left(&self) -> u64 {
        self.account.limit().saturating_sub(self.account.used())
    }
}
