//! Memory of contexts, and of their limits such as stacks and heaps.

use super::memory_request::context_or_ask;
use super::reserve::{make_room, refuse_on_panic, with_reservation};
use crate::driver::calls;
use crate::driver::primary;
use crate::driver::state::Inside;
use crate::limit::charges::{self, Charge, Kind};
use crate::limit::contexts::{RaisedLimit, begin, cost, raised_limits};
use crate::limit::device::{self, LimitState, Limited};
use crate::limit::libraries;
use reef_cuda_abi::codes::OUT_OF_MEMORY;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Sets a limit of the current context. Its memory is reserved before.
pub(crate) fn set_limit(limit: u32, value: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    refuse_on_panic(|| {
        let device = match device::current() {
            LimitState::Unlimited => return real(),
            LimitState::Broken => return OUT_OF_MEMORY,
            LimitState::Limited(device) => device,
        };
        let current = || {
            let mut value = 0;
            let is_known = calls::context_limit(&mut value, limit) == Some(0);
            is_known.then(|| cost(device, limit, value as u64)).flatten()
        };
        let (Some(before), Some(wanted)) = (current(), cost(device, limit, value as u64)) else {
            return real();
        };
        let mut all = raised_limits();
        let raised = all
            .entry((primary::owner(), limit))
            .or_insert_with(|| RaisedLimit::new(device, before));
        let more = raised.charge(wanted).saturating_sub(raised.bytes);
        if !make_room(device, more) {
            return OUT_OF_MEMORY;
        }
        let code = real();
        raised.settle(more, current().unwrap_or(wanted));
        code
    })
}

/// Locked by a thread that makes a context: of several at once, one makes the process's first.
static MAKING: Mutex<()> = Mutex::new(());

/// Makes a context. The memory of a process's first context on a device isn't charged here: the
/// daemon charges it as overhead.
pub(crate) fn create(to: *const usize, ordinal: i32, real: impl Fn() -> u32) -> u32 {
    let real = || context_or_ask(ordinal, &real);
    let Some(_inside) = Inside::limited() else { return real() };
    refuse_on_panic(|| match device::of(ordinal) {
        LimitState::Unlimited => real(),
        LimitState::Broken => OUT_OF_MEMORY,
        LimitState::Limited(device) => {
            let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
            let is_further = has_context(ordinal);
            let bytes = if is_further { begin(device).max(known_cost(ordinal)) } else { 0 };
            let variables = libraries::missing(ordinal);
            // Free memory of another device, if its context is current, says nothing of this one.
            let is_measured = is_further && calls::device() == Some(ordinal);
            let before = is_measured.then(free_memory).flatten();
            let mut made = 0;
            let code = with_reservation(device, bytes.saturating_add(variables), real, || {
                // SAFETY: where the driver has just written.
                made = unsafe { to.as_ref() }.copied().unwrap_or_default();
                libraries::enter(device, made, variables);
                charges::note(Kind::Context, made, Charge::new(device, bytes, made));
            });
            match before.zip(free_memory()) {
                Some((before, after)) if code == 0 => {
                    let took = before.saturating_sub(after).clamp(bytes, MAX_CONTEXT.max(bytes));
                    correct(device, made, took)
                }
                _ => code,
            }
        }
    })
}

/// Charges a context with the decrease of the device's free memory since it was made, or ends it.
fn correct(device: &'static Limited, context: usize, took: u64) -> u32 {
    let Some(charge) = charges::take(Kind::Context, context) else { return 0 };
    learn(device.ordinal, took);
    let more = took.saturating_sub(charge.bytes);
    if !make_room(device, more) {
        // SAFETY: a context of a moment ago, which the program doesn't know yet.
        let _ = unsafe { calls::destroy_context(context) };
        libraries::end_context(libraries::take_context(context), true);
        device.give_back(charge.bytes);
        return OUT_OF_MEMORY;
    }
    charges::note(Kind::Context, context, Charge { bytes: charge.bytes + more, ..charge });
    0
}

/// Returns the free bytes of the current context's device.
fn free_memory() -> Option<u64> {
    let (mut free, mut total) = (0, 0);
    (calls::memory_info(&mut free, &mut total) == Some(0)).then_some(free as u64)
}

/// Minimum bytes that a further context was seen to take, by ordinal; 0: unknown. Other processes
/// allocate at the same time, so one measurement may be too high.
static COSTS: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];
/// Maximum charge of a context: other processes may have allocated at the same time.
const MAX_CONTEXT: u64 = 1 << 30;

fn cost_of(ordinal: i32) -> Option<&'static AtomicU64> {
    usize::try_from(ordinal).ok().and_then(|ordinal| COSTS.get(ordinal))
}

fn known_cost(ordinal: i32) -> u64 {
    cost_of(ordinal).map_or(0, |cost| cost.load(Relaxed))
}

fn learn(ordinal: i32, took: u64) {
    let less = |before: u64| (before == 0 || took < before).then_some(took);
    let _ = cost_of(ordinal).map(|cost| cost.fetch_update(Relaxed, Relaxed, less));
}

/// Returns whether this process has a context on a device.
fn has_context(ordinal: i32) -> bool {
    has_primary(ordinal) || charges::has(Kind::Context, ordinal)
}

/// Returns whether a device's primary context is active.
fn has_primary(ordinal: i32) -> bool {
    let (mut flags, mut is_active) = (0, 0);
    // An error means that there is none, or no such device.
    let _ = calls::primary_state(ordinal, &mut flags, &mut is_active);
    is_active != 0
}

/// Stands for a primary context that the program was not seen to retain: no handle is equal.
const UNKNOWN: usize = usize::MAX;

/// Returns the contexts of this process on limited devices.
pub(crate) fn contexts() -> Vec<(&'static Limited, usize)> {
    let primary = |ordinal| match device::of(ordinal) {
        LimitState::Limited(device) => Some((device, primary::handle(ordinal).unwrap_or(UNKNOWN))),
        LimitState::Unlimited | LimitState::Broken => None,
    };
    let mut all = charges::contexts();
    all.extend((0..COSTS.len() as i32).filter(|ordinal| has_primary(*ordinal)).filter_map(primary));
    all
}

/// Retains a device's primary context by `real`.
pub(crate) fn retain(to: *const usize, ordinal: i32, real: impl FnOnce() -> u32) -> u32 {
    // SAFETY: null, or where the driver has just written.
    begin_primary(ordinal, real, || unsafe { to.as_ref() }.copied())
}

/// Makes a green context by `real`, which retains its device's primary context.
pub(crate) fn create_green(to: *const usize, ordinal: i32, real: impl FnOnce() -> u32) -> u32 {
    begin_primary(ordinal, real, || {
        // SAFETY: null, or where the driver has just written.
        let green = unsafe { to.as_ref() }?;
        Some(primary::add_green(*green, ordinal).unwrap_or(UNKNOWN))
    })
}

/// Makes a call that retains a device's primary context, whose handle `handle` returns afterwards.
/// If it begins, it gets variables of libraries.
fn begin_primary(
    ordinal: i32,
    real: impl FnOnce() -> u32,
    handle: impl FnOnce() -> Option<usize>,
) -> u32 {
    let Some(inside) = Inside::limited() else { return real() };
    let LimitState::Limited(device) = device::of(ordinal) else {
        drop(inside);
        return real(); // enters by itself
    };
    let begins = !has_primary(ordinal);
    let variables = if begins { libraries::missing(ordinal) } else { 0 };
    if variables > 0 && refuse_on_panic(|| u32::from(!make_room(device, variables))) != 0 {
        return OUT_OF_MEMORY;
    }
    drop(inside);
    let code = real(); // enters by itself
    let _inside = Inside::limited();
    let context = if code == 0 { handle() } else { None };
    match context.filter(|_| begins) {
        Some(context) => libraries::enter(device, context, variables),
        None => device.give_back(variables),
    }
    code
}
