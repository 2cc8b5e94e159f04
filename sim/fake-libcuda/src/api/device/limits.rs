//! Limits of contexts, as far as they take memory: stacks of all threads, what kernels print to,
//! and their heap.

use crate::api::export::{give, plain};
use crate::engine::device_memory::{give_back, take};
use reef_cuda_abi::codes::*;
use std::sync::Mutex;

plain! {
    cuCtxSetLimit(limit: u32, value: usize) = set;
    cuCtxGetLimit(value: *mut usize, limit: u32) = get;
}

/// Threads that a device has room for: four units of 2,048.
const THREADS: u64 = 4 * 2048;

/// Limits of a new context, which has their memory: stack, what is printed to, heap.
const NEW: [u64; 3] = [1 << 10, 1 << 20, 8 << 20];

/// One set for all contexts.
static LIMITS: Mutex<[u64; 3]> = Mutex::new(NEW);

/// Returns the bytes that limits take of the device, in addition to those of a new context.
fn cost(limits: [u64; 3]) -> u64 {
    bytes(limits).saturating_sub(bytes(NEW))
}

fn bytes([stack, printed, heap]: [u64; 3]) -> u64 {
    stack.saturating_mul(THREADS).saturating_add(printed).saturating_add(heap)
}

unsafe fn set(limit: u32, value: usize) -> u32 {
    let mut limits = LIMITS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut new = *limits;
    let Some(place) = new.get_mut(limit as usize) else { return INVALID_VALUE };
    *place = value as u64;
    let (before, now) = (cost(*limits), cost(new));
    if now > before && !take(now - before) {
        return OUT_OF_MEMORY;
    }
    give_back(before.saturating_sub(now));
    *limits = new;
    SUCCESS
}

unsafe fn get(value: *mut usize, limit: u32) -> u32 {
    let limits = LIMITS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(found) = limits.get(limit as usize) else { return INVALID_VALUE };
    // SAFETY: cuCtxGetLimit demands that `value` may be written; null is left out.
    unsafe { give(value, *found as usize) };
    SUCCESS
}
