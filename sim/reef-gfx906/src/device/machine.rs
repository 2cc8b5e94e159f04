//! The device of this process: its state, its memory and its events.

use super::residents::Order;
use super::state::State;
use crate::abi::MemoryFlags;
use crate::events::Events;
use crate::memory::Memory;
use crate::settings::{Counters, Record, Settings};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::AtomicU64;
use std::sync::{Once, OnceLock};

/// The one device of the process. It lives as long as the process: its threads may outlast
/// everything.
static DEVICE: OnceLock<Device> = OnceLock::new();
/// Settings that the device will be made with.
static SETTINGS: Mutex<Option<Settings>> = Mutex::new(None);

/// The words of a queue that the library keeps for the host.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Words {
    pub(crate) doorbell: AtomicU64,
    pub(crate) write: AtomicU64,
    pub(crate) read: AtomicU64,
}

impl Words {
    /// Makes words that last for the rest of the process: the host may still write to the doorbell
    /// of a queue that is gone.
    pub(crate) fn lasting() -> &'static Self {
        Box::leak(Box::default())
    }
}

/// The device, its memory and its events.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) memory: Memory,
    pub(crate) events: Events,
    pub(super) state: Mutex<State>,
    /// Notified when there is more to run than one thread runs.
    pub(super) work: Condvar,
    /// A workgroup has had its turn.
    pub(super) returned: Condvar,
    pub(super) workers: Once,
}

/// The device; made at the first use.
pub(crate) fn device() -> &'static Device {
    DEVICE.get_or_init(|| Device::new(SETTINGS.lock().unwrap_or_default()))
}

/// See `reef_gfx906_configure`.
pub(crate) fn configure(settings: Settings) -> bool {
    let good = (1..=64).contains(&settings.units) && settings.slice > 0 && settings.workers <= 64;
    if !good {
        return false;
    }
    match DEVICE.get() {
        None => *SETTINGS.lock() = Some(settings),
        Some(device) => return device.reconfigure(settings),
    }
    true
}

impl Device {
    pub(super) fn new(settings: Settings) -> Self {
        let device = Self {
            memory: Memory::default(),
            events: Events::default(),
            state: Mutex::new(State::new(settings)),
            work: Condvar::new(),
            returned: Condvar::new(),
            workers: Once::new(),
        };
        let (start, bytes) = device.events.mailboxes();
        device.memory.register(start, bytes, MemoryFlags::default());
        device.memory.map(start);
        device
    }

    fn reconfigure(&self, settings: Settings) -> bool {
        let mut state = self.state.lock();
        let Settings { step_budget, seed, .. } = settings;
        let same = Settings { step_budget, seed, ..state.settings } == settings;
        if same {
            state.settings = settings;
            state.residents.begin_anew(Order::of(&settings));
        }
        same
    }

    /// Compute units.
    pub(crate) fn units(&self) -> u32 {
        self.state.lock().settings.units
    }

    /// See `reef_gfx906_hold`.
    pub(crate) fn hold(&self, held: bool) {
        self.state.lock().held = held;
    }

    /// See `reef_gfx906_counters`.
    pub(crate) fn counters(&self) -> Counters {
        let state = self.state.lock();
        let available = self.memory.available();
        let (resident, queues) = (state.resident(), state.queues.len() as u64);
        Counters { resident, queues, available, ..state.counters }
    }

    /// See `reef_gfx906_trace`.
    pub(crate) fn trace(&self) -> Vec<Record> {
        self.state.lock().trace.records()
    }

    /// See `reef_gfx906_forget_trace`.
    pub(crate) fn forget_trace(&self) {
        self.state.lock().trace.forget();
    }

    /// See `reef_gfx906_last_fault`.
    pub(crate) fn last_fault(&self) -> String {
        self.state.lock().last_fault.clone()
    }
}
