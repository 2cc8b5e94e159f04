//! Slots: one address for each of the library's functions, looked up at its first call, and a
//! function that jumps there.

use crate::real::{is_there, symbol};
use std::sync::atomic::{AtomicUsize, Ordering};

/// `NVML_ERROR_LIBRARY_NOT_FOUND`, `NVML_ERROR_FUNCTION_NOT_FOUND`.
pub(crate) const NO_LIBRARY: u32 = 12;
pub(crate) const NO_FUNCTION: u32 = 13;

/// Zero: not looked up yet. Written by the first callers, always with the same value.
static SLOTS: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];

/// Returns the address in a slot: the real library's function, or one that returns an error.
pub(crate) fn address(slot: usize) -> usize {
    match SLOTS.get(slot).map_or(0, |at| at.load(Ordering::Acquire)) {
        0 => bind(slot),
        at => at,
    }
}

/// Looks up the real library's function of a slot. `None`: there is none.
pub(crate) fn real(slot: usize) -> Option<usize> {
    NAMES.get(slot).and_then(|name| symbol(name))
}

/// Looks a slot up for the first time.
#[cold]
extern "C" fn bind(slot: usize) -> usize {
    let missing = || {
        if is_there() {
            no_function as *const () as usize
        } else {
            no_library as *const () as usize
        }
    };
    let at = real(slot).unwrap_or_else(missing);
    if let Some(place) = SLOTS.get(slot) {
        place.store(at, Ordering::Release);
    }
    at
}

extern "C" fn no_library() -> u32 {
    NO_LIBRARY
}

extern "C" fn no_function() -> u32 {
    NO_FUNCTION
}

macro_rules! thunk {
    ($name:ident, $slot:literal) => {
        reef_guest::thunk!($name, $slot, SLOTS, first_call);
    };
}

reef_guest::first_call!(first_call, bind);

#[allow(non_upper_case_globals)]
mod names {
    use super::{SLOTS, first_call};

    include!(concat!(env!("OUT_DIR"), "/names.rs"));
}

pub(crate) use names::*;
