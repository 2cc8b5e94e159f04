//! Guarded kernels, as far as claiming and giving back goes, and the kernel that reports.

use super::device::{Fake, at, set};
use crate::code::guard::{Guard, MAX_BLOCKS};
use std::sync::atomic::Ordering;

/// Runs the blocks of a guarded kernel, or gives them back: `Block` in kernels/reef.h.
pub(super) fn run_blocks(fake: &Fake, guard: &Guard, count: u32) {
    for place in 0..count {
        let entry = match guard.list_in {
            0 => guard.first + place,
            list => at(list + u64::from(place) * 4),
        };
        let (index, stops) = (entry & MAX_BLOCKS, entry >> 30);
        let epoch = if guard.epoch_word == 0 { guard.epoch } else { at(guard.epoch_word) };
        let is_void = (epoch.wrapping_sub(at(guard.live)) as i32) < 0;
        let is_stopped = fake.hurried.load(Ordering::Relaxed) && guard.may_stop != 0 && stops < 2;
        match (is_void, is_stopped) {
            (true, _) => give_back(guard, entry),
            (false, true) => give_back(guard, index | (stops + 1) << 30),
            (false, false) => fake.ran.lock().push(index),
        }
    }
}

fn give_back(guard: &Guard, entry: u32) {
    let stopped: u32 = at(guard.stopped);
    set((guard.list_out + u64::from(stopped) * 4, entry));
    set((guard.stopped, stopped + 1));
}

/// The kernel `report` up to its signal: tells the host the counts and clears them.
pub(super) fn report(stopped: u64, host: u64, count: u64) {
    for i in 0..count {
        set((host + i * 4, at(stopped + i * 4)));
        set((stopped + i * 4, 0));
    }
}
