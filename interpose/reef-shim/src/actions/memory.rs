//! Allocations and their ends: each is reserved before the driver is asked, and given back if it
//! refuses.

use super::pools;
use super::reserve::{make_room, refuse_on_panic, settle_frees, with_reservation};
use crate::driver::calls::{self, Stream};
use crate::driver::pause_gate::touch;
use crate::driver::primary;
use crate::driver::state::Inside;
use crate::limit::charges::{self, Charge, Kind};
use crate::limit::contexts;
use crate::limit::device::{self, LimitState, Limited};
use crate::limit::exported;
use crate::limit::libraries;
use crate::limit::memory_handles::{Holder, memory_table};
use crate::limit::pending;
use crate::limit::pools::stores::stores;
use crate::limit::shared_blocks::{self, Part};
use crate::limit::sizes::{BLOCK, MAX_SHARED, granted, round_up};
use crate::swap::allocations;
use reef_cuda_abi::codes::OUT_OF_MEMORY;
use std::sync::MutexGuard;

/// Allocates `bytes` by `real`, which writes a handle of this kind to `to`.
fn allocate(kind: Kind, bytes: u64, to: *mut usize, real: impl FnOnce() -> u32) -> u32 {
    let charge = |device, _| Charge::new(device, bytes, primary::owner());
    allocate_as(kind, bytes, to, real, charge)
}

/// Allocates by `real`, which writes a handle of this kind to `to` and takes `most` bytes of the
/// device. Notes the charge of the handle.
fn allocate_as(
    kind: Kind,
    most: u64,
    to: *mut usize,
    real: impl FnOnce() -> u32,
    charge: impl FnOnce(&'static Limited, usize) -> Charge,
) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    refuse_on_panic(|| match device::current() {
        _ if to.is_null() || most == 0 => real(),
        LimitState::Unlimited => real(),
        LimitState::Broken => OUT_OF_MEMORY,
        LimitState::Limited(device) => with_reservation(device, most, real, || {
            // SAFETY: where the driver has just written.
            let handle = unsafe { *to };
            charges::note(kind, handle, charge(device, handle));
        }),
    })
}

/// Allocates `bytes` of linear memory, in blocks of its own or in one that it shares.
pub(crate) fn allocate_linear(bytes: u64, to: *mut usize, real: impl FnOnce() -> u32) -> u32 {
    if bytes == 0 || bytes > MAX_SHARED || allocations::has_blocks(bytes) {
        allocate(Kind::Memory, round_up(bytes, BLOCK), to, real)
    } else {
        allocate_shared(granted(bytes), to, real)
    }
}

/// Allocates `bytes` in a block that small allocations share. Only the driver knows whether it
/// takes a new one. So a block is reserved in any case, and given back if the driver took none.
fn allocate_shared(bytes: u64, to: *mut usize, real: impl FnOnce() -> u32) -> u32 {
    allocate_as(Kind::Memory, BLOCK, to, real, |device, at| {
        let context = primary::owner();
        let (part, is_new) = shared_blocks::enter(device, context, at);
        if !is_new {
            device.give_back(BLOCK);
        }
        Charge { part: Some(part), ..Charge::new(device, bytes, context) }
    })
}

/// Allocates an array of `bytes`, in blocks of its own or in one that small arrays share.
pub(crate) fn allocate_array(
    kind: Kind,
    bytes: u64,
    to: *mut usize,
    real: impl FnOnce() -> u32,
) -> u32 {
    if bytes == 0 {
        return make_sparse(kind, to, real);
    }
    if bytes > MAX_SHARED {
        return allocate(kind, round_up(bytes, BLOCK), to, real);
    }
    let Some(_inside) = Inside::limited() else { return real() };
    refuse_on_panic(|| {
        let device = match device::current() {
            _ if to.is_null() => return real(),
            LimitState::Unlimited => return real(),
            LimitState::Broken => return OUT_OF_MEMORY,
            LimitState::Limited(device) => device,
        };
        let context = primary::owner();
        let Some((part, turn)) = place_array(device, context, bytes) else { return OUT_OF_MEMORY };
        let code = real();
        if code == 0 {
            // SAFETY: not null, and the driver has just written there.
            let handle = unsafe { *to };
            let charge = Charge::new(device, bytes, context);
            charges::note(kind, handle, Charge { part: Some(part), ..charge });
        } else {
            device.give_back(shared_blocks::leave(part, false).0);
        }
        drop(turn);
        code
    })
}

/// Makes an array without memory by `real`. It is noted, because what is mapped into it ends with
/// its context.
fn make_sparse(kind: Kind, to: *const usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    // SAFETY: null, or where the driver has just written.
    let handle = unsafe { to.as_ref() }.filter(|_| code == 0);
    if let (Some(handle), LimitState::Limited(device)) = (handle, device::current()) {
        charges::note(kind, *handle, Charge::new(device, 0, primary::owner()));
    }
    code
}

/// Places an array in a block that small arrays share, or reserves a new one. `None`: there is no
/// room.
fn place_array(
    device: &'static Limited,
    context: usize,
    bytes: u64,
) -> Option<(Part, MutexGuard<'static, ()>)> {
    let turn = shared_blocks::array_turn();
    if let Some(part) = shared_blocks::place(device, context, bytes) {
        return Some((part, turn));
    }
    drop(turn); // streams may have to reach frees first
    if !make_room(device, BLOCK) {
        return None;
    }
    let turn = shared_blocks::array_turn();
    let Some(part) = shared_blocks::place(device, context, bytes) else {
        return Some((shared_blocks::begin(device, context, bytes), turn));
    };
    device.give_back(BLOCK); // another array has ended meanwhile
    Some((part, turn))
}

/// Allocates rows of `width` bytes. The driver chooses the pitch: it rounds up to 512 bytes at
/// most, as far as is known.
pub(crate) fn pitched(
    to: *mut usize,
    pitch: *mut usize,
    width: usize,
    height: usize,
    real: impl FnOnce() -> u32,
) -> u32 {
    let rows = |pitch: usize| (pitch as u64).saturating_mul(height as u64);
    let bytes = rows(width.checked_next_multiple_of(512).unwrap_or(usize::MAX));
    let code = allocate_linear(bytes, to, real);
    if code != 0 || to.is_null() || pitch.is_null() {
        return code;
    }
    let Some(_inside) = Inside::limited() else { return code };
    // SAFETY: where the driver has just written.
    let (at, took) = unsafe { (*to, granted(rows(*pitch))) };
    refuse_on_panic(|| correct(at, took))
}

/// Charges an allocation that is larger than expected with its actual size. Frees it if the limit
/// has no room.
fn correct(at: usize, took: u64) -> u32 {
    let Some(charge) = charges::take(Kind::Memory, at) else { return 0 };
    let Charge { device, context, .. } = charge;
    let is_in_block = charge.part.is_some() && took <= MAX_SHARED; // which is charged as a whole
    if took <= charge.bytes || is_in_block {
        let bytes = took.max(charge.bytes);
        charges::note(Kind::Memory, at, Charge { bytes, ..charge });
        return 0;
    }
    let has_room = device.reserve(took);
    if !has_room {
        // SAFETY: an allocation of a moment ago, which the program doesn't know yet.
        let _ = unsafe { calls::free(at) };
    }
    charge.end();
    if !has_room {
        return OUT_OF_MEMORY;
    }
    charges::note(Kind::Memory, at, Charge::new(device, took, context));
    0
}

/// Ends an allocation.
pub(crate) fn free(kind: Kind, handle: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let charge = charges::take(kind, handle);
    let is_shared = charge.is_some_and(|charge| charge.part.is_some());
    let _turn = (is_shared && kind != Kind::Memory).then(shared_blocks::array_turn);
    let is_array = matches!(kind, Kind::Array | Kind::Mipmapped);
    let held = is_array.then(|| memory_table().begin_take(Holder::Array(handle), |_| true));
    let code = if kind == Kind::Memory { pools::free(handle, real) } else { real() };
    match (code, charge) {
        (0, Some(charge)) => charge.end(),
        (_, Some(charge)) => charges::note(kind, handle, charge),
        (_, None) => {}
    }
    held.into_iter().for_each(|held| memory_table().end_take(held, code == 0));
    code
}

/// Ends an allocation in a stream. Memory of pools isn't in the table of charges, unless it was
/// moved to another device: the pool itself is charged.
pub(crate) fn free_in(stream: Stream, at: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let charge = charges::take(Kind::Memory, at);
    let code = pools::free_in(at, stream, real);
    let Some(charge) = charge else { return code };
    if code == 0 {
        calls::with_relaxed_capture(|| pending::add(stream, move || charge.end()));
    } else {
        charges::note(Kind::Memory, at, charge);
    }
    calls::with_relaxed_capture(pending::settle);
    code
}

/// Makes a call whose memory can't be counted, such as a function of CUDA 3 with addresses of 32
/// bits. It is refused where there is a limit.
pub(crate) fn uncounted(real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    match device::current() {
        LimitState::Unlimited => real(),
        LimitState::Broken | LimitState::Limited(_) => OUT_OF_MEMORY,
    }
}

/// Returns the device's memory to the program: the limit, and the bytes left of it.
pub(crate) fn info<T: TryFrom<u64> + Ord + Copy>(
    left: *mut T,
    total: *mut T,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    if code != 0 {
        return code;
    }
    if let LimitState::Limited(device) = device::current() {
        calls::with_relaxed_capture(|| {
            pending::settle();
            settle_frees(device);
            exported::settle(device);
            stores().settle_all(device);
        });
        lower_to(left, device.remaining());
        device::limit(device.ordinal).into_iter().for_each(|limit| lower_to(total, limit));
    }
    code
}

/// Returns the total memory of a device to the program: at most the limit.
pub(crate) fn total<T: TryFrom<u64> + Ord + Copy>(
    bytes: *mut T,
    ordinal: i32,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    if code == 0 {
        device::limit(ordinal).into_iter().for_each(|limit| lower_to(bytes, limit));
    }
    code
}

/// Lowers a number of the program's. One that is too small for `most` is below it.
fn lower_to<T: TryFrom<u64> + Ord + Copy>(value: *mut T, most: u64) {
    // SAFETY: null, or where the driver has just written.
    if let (Some(value), Ok(most)) = (unsafe { value.as_mut() }, T::try_from(most)) {
        *value = most.min(*value);
    }
}

/// Ends a context by `real`, and gives back its allocations.
pub(crate) fn end_context(context: usize, real: impl FnOnce() -> u32) -> u32 {
    let _touch = touch();
    let ending = Ending::begin(context);
    let code = real(); // enters by itself
    ending.end(code == 0);
    code
}

/// Releases a reference to the current context by `real`, and gives back its allocations if it was
/// the last one: then the context isn't current any more.
pub(crate) fn detach_context(context: usize, real: impl FnOnce() -> u32) -> u32 {
    let _touch = touch();
    let ending = Ending::begin(context);
    let code = real();
    ending.end(code == 0 && calls::context() != context);
    code
}

/// Ends a device's primary context by `real`, and gives back its allocations.
pub(crate) fn end_primary(ordinal: i32, real: impl FnOnce() -> u32) -> u32 {
    let _touch = touch();
    let ending = primary::handle(ordinal).map(Ending::begin);
    let code = real();
    let has_ended = code == 0 && !primary::is_active(ordinal);
    ending.into_iter().for_each(|ending| ending.end(has_ended));
    code
}

/// Destroys a green context by `real`, and gives back the allocations of its device's primary
/// context if nothing else retains that.
pub(crate) fn end_green(green: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(of) = primary::take_green(green) else { return real() };
    let _touch = touch();
    let ending = Ending::begin(of.primary);
    let code = real(); // enters by itself
    if code != 0 {
        primary::put_green(green, of);
    }
    ending.end(code == 0 && !primary::is_active(of.ordinal));
    code
}

/// Context that may be about to end. Another one may get its handle before the driver's call has
/// returned, so what it has is known from before.
struct Ending {
    context: usize,
    limits: Option<EndingLimits>,
}

/// Allocations of such a context: numbers of the last ones, and what is removed until the end.
struct EndingLimits {
    charge: u64,
    pending: u64,
    free: u64,
    variables: Vec<(usize, Charge)>,
    raised: contexts::ContextLimits,
}

impl Ending {
    fn begin(context: usize) -> Self {
        let limits = Inside::limited().map(|_inside| EndingLimits {
            charge: charges::last(),
            pending: pending::last(),
            free: stores().last_free(),
            variables: libraries::take_context(context),
            raised: contexts::take(context),
        });
        Self { context, limits }
    }

    /// Gives back all allocations of the context, if it has ended.
    fn end(self, has_ended: bool) {
        let Self { context, limits } = self;
        if has_ended {
            allocations::end_context(context);
        }
        let Some(limits) = limits else { return };
        let _inside = Inside::limited();
        if has_ended {
            for array in charges::end_context(context, limits.charge) {
                let mut memory = memory_table();
                let held = memory.begin_take(Holder::Array(array), |_| true);
                memory.end_take(held, true);
            }
            pending::end_context(context, limits.pending);
            stores().end_context(context, limits.free);
        }
        libraries::end_context(limits.variables, has_ended);
        contexts::end(limits.raised, has_ended);
    }
}
