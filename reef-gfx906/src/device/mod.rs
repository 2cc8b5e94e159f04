//! The device: compute units, hardware queues, and the threads that are its clockwork.

mod group;
mod hardware_queue;
mod launch;
mod residents;
mod state;
#[cfg(test)]
mod tests;
mod trace;
mod unit;
mod worker;

pub(crate) use launch::Launch;

use crate::abi::MemoryFlags;
use crate::control::{Counters, Outcome, Record, Settings};
use crate::events::Events;
use crate::memory::Memory;
use crate::queue::Ring;
use hardware_queue::{EVERY_UNIT, HardwareQueue};
use parking_lot::{Condvar, Mutex};
use residents::Order;
use state::State;
use std::sync::atomic::AtomicU64;
use std::sync::{Once, OnceLock};

/// The one device of the process. It lives as long as the process: its threads may outlast everything.
static DEVICE: OnceLock<Device> = OnceLock::new();
/// What it will be made with.
static SETTINGS: Mutex<Option<Settings>> = Mutex::new(None);

/// As many queues as the kernel driver gives to a process.
const MOST_QUEUES: usize = 1024;

/// The words of a queue that the library keeps for the host.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Words {
    pub(crate) doorbell: AtomicU64,
    pub(crate) write: AtomicU64,
    pub(crate) read: AtomicU64,
}

impl Words {
    /// For the rest of the process: the host may still write to the doorbell of a queue that is gone.
    pub(crate) fn lasting() -> &'static Self {
        Box::leak(Box::default())
    }
}

/// The device, its memory and its events.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) memory: Memory,
    pub(crate) events: Events,
    state: Mutex<State>,
    /// There is more to run than one thread runs.
    work: Condvar,
    /// A workgroup has had its turn.
    returned: Condvar,
    workers: Once,
}

/// The device; made at the first use.
pub(crate) fn device() -> &'static Device {
    DEVICE.get_or_init(|| Device::new(SETTINGS.lock().unwrap_or_default()))
}

/// See [`crate::control::reef_gfx906_configure`].
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
    fn new(settings: Settings) -> Self {
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

    /// Makes a queue and says what its number is; `None` if there are too many.
    pub(crate) fn create_queue(
        &'static self,
        ring: Ring,
        copies: bool,
        priority: i32,
        active: bool,
    ) -> Option<u32> {
        self.workers.call_once(|| worker::start(self));
        let mut state = self.state.lock();
        if state.queues.len() >= MOST_QUEUES {
            return None;
        }
        let id = state.queues.last_key_value().map_or(1, |(&id, _)| id + 1);
        state.queues.insert(id, HardwareQueue::new(ring, copies, priority.clamp(-3, 3), active));
        Some(id)
    }

    /// Ends what a queue runs and forgets it; false if there is none. When this is back, the device doesn't
    /// touch the queue's memory any more.
    pub(crate) fn destroy_queue(&self, id: u32) -> bool {
        let mut state = self.state.lock();
        let Some(queue) = state.queues.get_mut(&id) else { return false };
        queue.active = false; // takes up nothing more, and completes nothing
        state.end_launches(id, Outcome::Killed);
        while state.is_running(id) {
            self.returned.wait(&mut state);
        }
        state.queues.remove(&id).is_some()
    }

    /// Sets what share of the device a queue has, as far as that is none or some, and its priority; false
    /// if there is no such queue.
    pub(crate) fn update_queue(&self, id: u32, active: bool, priority: i32) -> bool {
        let mut state = self.state.lock();
        let Some(queue) = state.queues.get_mut(&id) else { return false };
        queue.priority = priority.clamp(-3, 3);
        state.set_active(id, active);
        true
    }

    /// Sets on which units a queue runs; none means all. False if there is no such queue or no such unit.
    pub(crate) fn set_mask(&self, id: u32, mask: u64) -> bool {
        let mut state = self.state.lock();
        let there = EVERY_UNIT >> (64 - state.units.len());
        let mask = if mask == 0 { EVERY_UNIT } else { mask };
        match state.queues.get_mut(&id) {
            Some(queue) if mask & there != 0 => queue.mask = mask,
            _ => return false,
        }
        true
    }

    /// See [`crate::control::reef_gfx906_hold`].
    pub(crate) fn hold(&self, held: bool) {
        self.state.lock().held = held;
    }

    /// See [`crate::control::reef_gfx906_counters`].
    pub(crate) fn counters(&self) -> Counters {
        let state = self.state.lock();
        let available = self.memory.available();
        let (resident, queues) = (state.resident(), state.queues.len() as u64);
        Counters { resident, queues, available, ..state.counters }
    }

    /// See [`crate::control::reef_gfx906_trace`].
    pub(crate) fn trace(&self) -> Vec<Record> {
        self.state.lock().trace.records()
    }

    /// See [`crate::control::reef_gfx906_forget_trace`].
    pub(crate) fn forget_trace(&self) {
        self.state.lock().trace.forget();
    }

    /// See [`crate::control::reef_gfx906_last_fault`].
    pub(crate) fn last_fault(&self) -> String {
        self.state.lock().last_fault.clone()
    }
}
