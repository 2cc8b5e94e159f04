//! Guarded kernels, as far as claiming and giving back goes, and the kernel that reports.

use super::device::{Fake, at, set};
use crate::code::guard::{Guard, MAX_BLOCKS};
use std::sync::atomic::Ordering;

/// Runs the blocks of a guarded kernel, each block of the grid its turns, or gives them back:
/// `Turns` and `Block` in kernels/reef.h.
pub(super) fn run_blocks(fake: &Fake, guard: &Guard, grid: u32) {
    assert_eq!(grid, guard.stride);
    for first in 0..grid {
        let mut turns = (first..guard.count).step_by(guard.stride as usize);
        if turns.any(|place| !run_block(fake, guard, entry(guard, place))) {
            turns.for_each(|place| give_back(guard, entry(guard, place)));
        }
    }
}

fn entry(guard: &Guard, place: u32) -> u32 {
    match guard.list_in {
        0 => guard.first + place,
        list => at(list + u64::from(place) * 4),
    }
}

/// Runs a block, or gives it back. Returns whether it has taken effect.
fn run_block(fake: &Fake, guard: &Guard, entry: u32) -> bool {
    let (index, stops) = (entry & MAX_BLOCKS, entry >> 30);
    let epoch = if guard.epoch_word == 0 { guard.epoch } else { at(guard.epoch_word) };
    let is_void = (epoch.wrapping_sub(at(guard.live)) as i32) < 0;
    let is_stopped = fake.hurried.load(Ordering::Relaxed) && guard.may_stop != 0 && stops < 2;
    match (is_void, is_stopped) {
        (true, _) => give_back(guard, entry),
        (false, true) => give_back(guard, index | (stops + 1) << 30),
        (false, false) => fake.ran.lock().push(index),
    }
    !is_void && !is_stopped
}

fn give_back(guard: &Guard, entry: u32) {
    let stopped: u32 = at(guard.stopped);
    set(guard.list_out + u64::from(stopped) * 4, entry);
    set(guard.stopped, stopped + 1);
}

/// The kernel `report` up to its signal: tells the host the counts and clears them.
pub(super) fn report(stopped: u64, host: u64, count: u64) {
    for i in 0..count {
        set(host + i * 4, at(stopped + i * 4));
        set(stopped + i * 4, 0);
    }
}
