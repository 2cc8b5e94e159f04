//! Devices and contexts: a context per device, named by the device's number and one.

use super::code::*;
use super::export::{give, plain};
use super::streams::wait_for_all;
use crate::engine::run::start;
use crate::engine::world::setting;
use std::cell::Cell;
use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_STARTED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// The thread's context.
pub(crate) fn current() -> Option<usize> {
    let current = CURRENT.get();
    (current != 0).then_some(current)
}

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
    cuDevicePrimaryCtxReset_v2(device: i32) = release;
    cuCtxCreate_v2(context: *mut usize, flags: u32, device: i32) = create;
    cuCtxDestroy_v2(context: usize) = destroy;
    cuCtxSetCurrent(context: usize) = set_current;
    cuCtxGetCurrent(context: *mut usize) = get_current;
    cuCtxGetDevice(device: *mut i32) = get_device;
    cuCtxSynchronize() = synchronize;
    cuGetErrorName(code: u32, name: *mut *const c_char) = error_name;
}

unsafe fn init(_flags: u32) -> u32 {
    IS_STARTED.store(true, Ordering::Relaxed);
    start();
    SUCCESS
}

unsafe fn version(version: *mut i32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { give(version, 13_050) };
    SUCCESS
}

unsafe fn count(count: *mut i32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { give(count, devices()) };
    if IS_STARTED.load(Ordering::Relaxed) { SUCCESS } else { NOT_INITIALIZED }
}

fn devices() -> i32 {
    setting("REEF_FAKE_DEVICES", 1) as i32
}

unsafe fn device(device: *mut i32, ordinal: i32) -> u32 {
    if !(0..devices()).contains(&ordinal) {
        return 101;
    }
    // SAFETY: the caller's promise.
    unsafe { give(device, ordinal) };
    SUCCESS
}

unsafe fn name(name: *mut c_char, length: i32, _device: i32) -> u32 {
    if length < 5 {
        return INVALID_VALUE;
    }
    // SAFETY: there is room for that many.
    unsafe { std::ptr::copy_nonoverlapping(c"fake".as_ptr(), name, 5) };
    SUCCESS
}

unsafe fn uuid(uuid: *mut [u8; 16], device: i32) -> u32 {
    let mut bytes = *b"fake device no 0";
    bytes[15] += device as u8;
    // SAFETY: the caller's promise.
    unsafe { give(uuid, bytes) };
    SUCCESS
}

/// Nothing but what the shim asks for: no watchdog, memory operations of both kinds.
unsafe fn attribute(value: *mut i32, attribute: u32, _device: i32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { give(value, i32::from(matches!(attribute, 122 | 123))) };
    SUCCESS
}

unsafe fn retain(context: *mut usize, device: i32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { give(context, device as usize + 1) };
    SUCCESS
}

unsafe fn release(_device: i32) -> u32 {
    SUCCESS
}

unsafe fn create(context: *mut usize, _flags: u32, device: i32) -> u32 {
    CURRENT.set(device as usize + 1);
    // SAFETY: the caller's promise.
    unsafe { retain(context, device) }
}

unsafe fn destroy(context: usize) -> u32 {
    wait_for_all(Some(context))
}

unsafe fn set_current(context: usize) -> u32 {
    CURRENT.set(context);
    SUCCESS
}

unsafe fn get_current(context: *mut usize) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { give(context, CURRENT.get()) };
    SUCCESS
}

unsafe fn get_device(device: *mut i32) -> u32 {
    let Some(context) = current() else { return INVALID_CONTEXT };
    // SAFETY: the caller's promise.
    unsafe { give(device, context as i32 - 1) };
    SUCCESS
}

unsafe fn synchronize() -> u32 {
    current().map_or(INVALID_CONTEXT, |context| wait_for_all(Some(context)))
}

unsafe fn error_name(_code: u32, name: *mut *const c_char) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { give(name, c"CUDA_ERROR_OF_THE_FAKE".as_ptr()) };
    SUCCESS
}
