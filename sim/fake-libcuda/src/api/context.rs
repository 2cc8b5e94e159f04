//! Devices and contexts.
//!
//! A primary context that is made current while no call retains it is retained by that: NVIDIA's
//! runtime does this first.

use super::current::{self, current};
use super::export::{give, plain};
use super::streams::wait_for_all;
use crate::engine::context::{CONTEXT_BYTES, Kind, primary};
use crate::engine::device_memory::take;
use crate::engine::run::start;
use crate::engine::settings::setting;
use crate::engine::world::world;
use reef_cuda_abi::codes::*;
use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_STARTED: AtomicBool = AtomicBool::new(false);

plain! {
    cuInit(flags: u32) = init;
    cuDriverGetVersion(version: *mut i32) = version;
    cuDeviceGetCount(count: *mut i32) = count;
    cuDeviceGet(device: *mut i32, ordinal: i32) = device;
    cuDeviceGetName(name: *mut c_char, length: i32, device: i32) = name;
    cuDeviceGetUuid(uuid: *mut [u8; 16], device: i32) = uuid;
    cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: i32) = uuid;
    cuDeviceGetAttribute(value: *mut i32, attribute: u32, device: i32) = attribute;
    cuDevicePrimaryCtxRetain(context: *mut usize, device: i32) = retain;
    cuDevicePrimaryCtxRelease_v2(device: i32) = release;
    cuDevicePrimaryCtxRelease(device: i32) = release;
    cuDevicePrimaryCtxReset_v2(device: i32) = reset;
    cuDevicePrimaryCtxReset(device: i32) = reset;
    cuDevicePrimaryCtxGetState(device: i32, flags: *mut u32, is_active: *mut i32) = state;
    cuCtxCreate_v2(context: *mut usize, flags: u32, device: i32) = create;
    cuCtxAttach(context: *mut usize, flags: u32) = attach;
    cuCtxDetach(context: usize) = detach;
    cuCtxGetId(context: usize, id: *mut u64) = id;
    cuCtxDestroy_v2(context: usize) = destroy;
    cuCtxSetCurrent(context: usize) = set_current;
    cuCtxGetCurrent(context: *mut usize) = get_current;
    cuCtxGetDevice(device: *mut i32) = get_device;
    cuCtxSynchronize() = synchronize;
    cuCtxSynchronize_v2(context: usize) = synchronize_one;
    reef_fake_misuses(misuses: *mut u64) = misuses;
    reef_fake_progress(progress: *mut [u64; 2]) = progress;
    cuGetErrorName(code: u32, name: *mut *const c_char) = error_name;
}

unsafe fn init(_flags: u32) -> u32 {
    IS_STARTED.store(true, Ordering::Relaxed);
    start();
    SUCCESS
}

unsafe fn version(version: *mut i32) -> u32 {
    // SAFETY: cuDriverGetVersion demands that `version` may be written; null is left out.
    unsafe { give(version, 13_050) };
    SUCCESS
}

unsafe fn count(count: *mut i32) -> u32 {
    // SAFETY: cuDeviceGetCount demands that `count` may be written; null is left out.
    unsafe { give(count, devices()) };
    if IS_STARTED.load(Ordering::Relaxed) { SUCCESS } else { NOT_INITIALIZED }
}

pub(crate) fn devices() -> i32 {
    setting("REEF_FAKE_DEVICES", 1) as i32
}

/// Returns a device's number, or the driver's error for a device that it does not have.
pub(crate) fn number_of(device: i32) -> Result<usize, u32> {
    if (0..devices()).contains(&device) { Ok(device as usize) } else { Err(INVALID_DEVICE) }
}

unsafe fn device(device: *mut i32, ordinal: i32) -> u32 {
    if let Err(code) = number_of(ordinal) {
        return code;
    }
    // SAFETY: cuDeviceGet demands that `device` may be written; null is left out.
    unsafe { give(device, ordinal) };
    SUCCESS
}

unsafe fn name(name: *mut c_char, length: i32, device: i32) -> u32 {
    if let Err(code) = number_of(device) {
        return code;
    }
    if length < 5 {
        return INVALID_VALUE;
    }
    // SAFETY: there is room for that many.
    unsafe { std::ptr::copy_nonoverlapping(c"fake".as_ptr(), name, 5) };
    SUCCESS
}

unsafe fn uuid(uuid: *mut [u8; 16], device: i32) -> u32 {
    if !IS_STARTED.load(Ordering::Relaxed) {
        return NOT_INITIALIZED;
    }
    let device = match number_of(device) {
        Ok(device) => device,
        Err(code) => return code,
    };
    let mut bytes = *b"fake device no 0";
    bytes[15] = bytes[15].wrapping_add(device as u8);
    // SAFETY: cuDeviceGetUuid demands 16 bytes at `uuid` that may be written; null is left out.
    unsafe { give(uuid, bytes) };
    SUCCESS
}

/// Nothing but what the shim asks for: no watchdog, memory operations of both kinds, room for
/// threads.
unsafe fn attribute(value: *mut i32, attribute: u32, device: i32) -> u32 {
    if let Err(code) = number_of(device) {
        return code;
    }
    // SAFETY: cuDeviceGetAttribute demands that `value` may be written; null is left out.
    unsafe {
        give(
            value,
            match attribute {
                16 => 4,    // units
                39 => 2048, // threads of each
                75 => 9,    // compute capability 9.0
                122 | 123 => 1,
                88 => setting("REEF_FAKE_PAGEABLE", 0) as i32,
                _ => 0,
            },
        )
    };
    SUCCESS
}

/// Waits for the work of a context that can't get more, and ends the context.
pub(crate) fn finish(context: Option<u64>) -> u32 {
    let Some(context) = context else { return SUCCESS };
    wait_for_all(Some(context));
    world().drop_context(context);
    SUCCESS
}

unsafe fn retain(context: *mut usize, device: i32) -> u32 {
    let device = match number_of(device) {
        Ok(device) => device,
        Err(code) => return code,
    };
    // SAFETY: cuDevicePrimaryCtxRetain demands that `context` may be written; null is left out.
    unsafe { give(context, world().retain(device)) };
    SUCCESS
}

unsafe fn release(device: i32) -> u32 {
    let device = match number_of(device) {
        Ok(device) => device,
        Err(code) => return code,
    };
    let context = primary(device);
    if !world().contexts.contains_key(&context) {
        return INVALID_CONTEXT;
    }
    let over = world().release(context);
    finish(over)
}

/// Ends a device's primary context, however many calls retain it.
unsafe fn reset(device: i32) -> u32 {
    let device = match number_of(device) {
        Ok(device) => device,
        Err(code) => return code,
    };
    let over = world().end_context(primary(device));
    finish(over)
}

unsafe fn state(device: i32, flags: *mut u32, is_active: *mut i32) -> u32 {
    let device = match number_of(device) {
        Ok(device) => device,
        Err(code) => return code,
    };
    let active = world().contexts.contains_key(&primary(device));
    // SAFETY: cuDevicePrimaryCtxGetState demands that `flags` and `is_active` may be written; null
    // is left out.
    unsafe {
        give(flags, 0);
        give(is_active, i32::from(active));
    }
    SUCCESS
}

unsafe fn create(context: *mut usize, _flags: u32, device: i32) -> u32 {
    let device = match number_of(device) {
        Ok(device) => device,
        Err(code) => return code,
    };
    if !take(CONTEXT_BYTES) {
        return OUT_OF_MEMORY;
    }
    let handle = world().create_context(device, Kind::Created);
    current::set(handle);
    // SAFETY: cuCtxCreate demands that `context` may be written; null is left out.
    unsafe { give(context, handle) };
    SUCCESS
}

unsafe fn destroy(context: usize) -> u32 {
    let mut world = world();
    if !world.contexts.get(&context).is_some_and(|context| context.kind == Kind::Created) {
        return INVALID_CONTEXT;
    }
    let over = world.end_context(context);
    drop(world);
    if current::handle() == context {
        current::set(0);
    }
    finish(over)
}

unsafe fn attach(context: *mut usize, _flags: u32) -> u32 {
    let mut world = world();
    let Some(known) = world.contexts.get_mut(&current::handle()) else { return INVALID_CONTEXT };
    known.references += 1;
    // SAFETY: cuCtxAttach demands that `context` may be written; null is left out.
    unsafe { give(context, current::handle()) };
    SUCCESS
}

unsafe fn detach(context: usize) -> u32 {
    if current::handle() != context || !world().contexts.contains_key(&context) {
        return INVALID_CONTEXT;
    }
    let over = world().release(context);
    if over.is_some() {
        current::set(0);
    }
    finish(over)
}

/// Without `REEF_FAKE_IDS=0`, which plays a driver before CUDA 12.
unsafe fn id(context: usize, id: *mut u64) -> u32 {
    let mut world = world();
    let known = match context {
        0 => current(&mut world),
        context => world.contexts.get(&context).copied().ok_or(INVALID_CONTEXT),
    };
    if setting("REEF_FAKE_IDS", 1) == 0 {
        return NOT_SUPPORTED;
    }
    known.map_or_else(
        |code| code,
        |known| {
            // SAFETY: cuCtxGetId demands that `id` may be written; null is left out.
            unsafe { give(id, known.id) };
            SUCCESS
        },
    )
}

unsafe fn set_current(context: usize) -> u32 {
    let mut world = world();
    let is_known = world.contexts.contains_key(&context);
    if context != 0 && !is_known {
        if !(1..=devices() as usize).contains(&context) {
            world.misuses += 1;
            return INVALID_CONTEXT;
        }
        world.retain(context - 1);
    }
    current::set(context);
    SUCCESS
}

unsafe fn get_current(context: *mut usize) -> u32 {
    // SAFETY: cuCtxGetCurrent demands that `context` may be written; null is left out.
    unsafe { give(context, current::handle()) };
    SUCCESS
}

unsafe fn get_device(device: *mut i32) -> u32 {
    let context = current(&mut world());
    context.map_or_else(
        |code| code,
        |context| {
            // SAFETY: cuCtxGetDevice demands that `device` may be written; null is left out.
            unsafe { give(device, context.device as i32) };
            SUCCESS
        },
    )
}

unsafe fn synchronize() -> u32 {
    let context = current(&mut world());
    context.map_or_else(|code| code, |context| wait_for_all(Some(context.id)))
}

unsafe fn synchronize_one(context: usize) -> u32 {
    if context == 0 {
        // SAFETY: `synchronize` has no arguments.
        return unsafe { synchronize() };
    }
    let known = world().contexts.get(&context).copied();
    known.map_or(INVALID_CONTEXT, |context| wait_for_all(Some(context.id)))
}

/// Number of calls that named something that had ended.
unsafe fn misuses(misuses: *mut u64) -> u32 {
    // SAFETY: tests pass the address of a local here; null is left out.
    unsafe { give(misuses, world().misuses) };
    SUCCESS
}

/// Operations that the device has run, and the times that it found nothing that may run.
unsafe fn progress(progress: *mut [u64; 2]) -> u32 {
    let world = world();
    // SAFETY: tests pass the address of a local of two words here; null is left out.
    unsafe { give(progress, [world.ran, world.rests]) };
    SUCCESS
}

unsafe fn error_name(_code: u32, name: *mut *const c_char) -> u32 {
    // SAFETY: cuGetErrorName demands that `name` may be written; null is left out. The text is
    // static.
    unsafe { give(name, c"CUDA_ERROR_OF_THE_FAKE".as_ptr()) };
    SUCCESS
}
