//! The host's calls on hardware queues: it makes, changes and ends them.

use super::hardware_queue::{EVERY_UNIT, HardwareQueue};
use super::machine::Device;
use super::worker;
use crate::queue::ring::Ring;
use crate::settings::Outcome;

/// As many queues as the kernel driver gives to a process.
const MAX_QUEUES: usize = 1024;

impl Device {
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
        if state.queues.len() >= MAX_QUEUES {
            return None;
        }
        let id = state.queues.last_key_value().map_or(1, |(&id, _)| id + 1);
        state.queues.insert(id, HardwareQueue::new(ring, copies, priority.clamp(-3, 3), active));
        Some(id)
    }

    /// Ends what a queue runs and forgets it; false if there is none. When this is back, the device
    /// doesn't touch the queue's memory any more.
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

    /// Sets what share of the device a queue has, as far as that is none or some, and its priority;
    /// false if there is no such queue.
    pub(crate) fn update_queue(&self, id: u32, active: bool, priority: i32) -> bool {
        let mut state = self.state.lock();
        let Some(queue) = state.queues.get_mut(&id) else { return false };
        queue.priority = priority.clamp(-3, 3);
        state.set_active(id, active);
        true
    }

    /// Sets on which units a queue runs; none means all. False if there is no such queue or no such
    /// unit.
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
}
