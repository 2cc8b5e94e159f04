//! Slots: one address for each of the driver's functions, looked up at its first call.

use super::library::symbol;
use super::names::NAMES;
use super::pause_gate;
use super::withheld::is_withheld;
use reef_cuda_abi::codes::{NO_DEVICE, NOT_FOUND};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Zero: not looked up yet. Written by the first callers, always with the same value.
pub(super) static SLOTS: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];

/// Returns the address in a slot: the real driver's function, or one that returns an error.
#[inline]
pub(crate) fn address(slot: usize) -> usize {
    match SLOTS.get(slot).map_or(0, |at| at.load(Ordering::Acquire)) {
        0 => bind(slot),
        at => at,
    }
}

/// Returns the real driver's function, if it has it.
pub(crate) fn real(slot: usize) -> Option<usize> {
    let at = address(slot);
    (at != no_driver as *const () as usize && at != no_function as *const () as usize).then_some(at)
}

/// Looks a slot up for the first time, or while calls wait.
#[cold]
pub(super) extern "C" fn bind(slot: usize) -> usize {
    pause_gate::wait();
    let known = NAMES.get(slot).filter(|name| !is_withheld(name));
    let at = match known.map(|name| symbol(name)) {
        Some(Ok(Some(at))) => at,
        Some(Err(())) => no_driver as *const () as usize,
        Some(Ok(None)) | None => no_function as *const () as usize,
    };
    if let Some(place) = SLOTS.get(slot) {
        place.store(at, Ordering::SeqCst);
        if pause_gate::is_paused() {
            place.store(0, Ordering::SeqCst); // the pause began meanwhile, or this call is ours
        }
    }
    at
}

/// Empties all slots: each call looks its slot up again.
pub(super) fn clear() {
    SLOTS.iter().for_each(|slot| slot.store(0, Ordering::SeqCst));
}

extern "C" fn no_driver() -> u32 {
    NO_DEVICE
}

extern "C" fn no_function() -> u32 {
    NOT_FOUND
}
