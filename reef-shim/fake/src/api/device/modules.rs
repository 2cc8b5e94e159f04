//! Modules: text whose global arrays take memory of the device, for as long as the module is
//! loaded.

use crate::api::code::*;
use crate::api::export::{give, plain};
use crate::engine::device_memory::{give_back, take};
use crate::engine::world::world;
use std::ffi::{CStr, c_char};

plain! {
    cuModuleLoadData(module: *mut usize, image: *const c_char) = load;
    cuModuleLoadDataEx(module: *mut usize, image: *const c_char, count: u32, options: usize, values: usize) = load_with;
    cuModuleLoad(module: *mut usize, path: *const c_char) = load_file;
    cuModuleUnload(module: usize) = unload;
    cuModuleGetLoadingMode(mode: *mut u32) = mode;
    cuLibraryLoadData(library: *mut usize, image: *const c_char, a: usize, b: usize, c: u32, d: usize, e: usize, f: u32) = load_library;
    cuLibraryUnload(library: usize) = unload;
}

/// Bytes of the arrays `.global … .b8 name[bytes];` of a text.
fn globals(text: &str) -> u64 {
    let arrays = text
        .split(".global")
        .skip(1)
        .filter_map(|rest| rest.split_once('[')?.1.split_once(']')?.0.trim().parse::<u64>().ok());
    arrays.sum()
}

fn make(module: *mut usize, text: &str) -> u32 {
    let bytes = globals(text);
    if !take(bytes) {
        return OUT_OF_MEMORY;
    }
    let mut world = world();
    let handle = world.handle();
    world.taken.insert(handle, bytes);
    // SAFETY: the caller's promise.
    unsafe { give(module, handle) };
    SUCCESS
}

unsafe fn load(module: *mut usize, image: *const c_char) -> u32 {
    if image.is_null() {
        return make(module, ""); // as tests do that have none
    }
    // SAFETY: the caller's promise: a text.
    let text = unsafe { CStr::from_ptr(image) }.to_string_lossy();
    make(module, &text)
}

unsafe fn load_with(
    module: *mut usize,
    image: *const c_char,
    _count: u32,
    _options: usize,
    _values: usize,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { load(module, image) }
}

unsafe fn load_file(module: *mut usize, path: *const c_char) -> u32 {
    // SAFETY: the caller's promise: a path.
    let path = unsafe { CStr::from_ptr(path) }.to_string_lossy().into_owned();
    std::fs::read_to_string(path).map_or(NOT_FOUND, |text| make(module, &text))
}

#[allow(clippy::too_many_arguments)] // the driver's
unsafe fn load_library(
    library: *mut usize,
    image: *const c_char,
    _a: usize,
    _b: usize,
    _c: u32,
    _d: usize,
    _e: usize,
    _f: u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { load(library, image) }
}

unsafe fn unload(module: usize) -> u32 {
    if module == 0 {
        return SUCCESS; // as tests do that have none
    }
    let bytes = world().taken.remove(&module);
    bytes.map(give_back).map_or(INVALID_HANDLE, |()| SUCCESS)
}

/// Everything at once.
unsafe fn mode(mode: *mut u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { give(mode, 1) };
    SUCCESS
}
