//! Libraries' kernels and variables. A variable is an array of the library's text, or memory of the
//! device that comes to be when it is first asked for; kernels are those that modules have.

use super::modules::{array, enter};
use crate::api::export::{give, plain};
use crate::api::launch::{function, param};
use crate::api::memory::alloc;
use crate::engine::world::world;
use reef_cuda_abi::codes::*;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::sync::{Mutex, PoisonError};

plain! {
    cuLibraryGetKernel(kernel: *mut usize, library: usize, name: *const c_char) = kernel;
    cuLibraryGetGlobal(at: *mut usize, bytes: *mut usize, library: usize, name: *const c_char) = global;
    cuLibraryGetKernelCount(count: *mut u32, library: usize) = count;
    cuKernelGetFunction(function: *mut usize, kernel: usize) = function_of;
    cuKernelGetParamInfo(kernel: usize, index: usize, offset: *mut usize, bytes: *mut usize) = param;
    cuKernelGetAttribute(value: *mut i32, attribute: u32, kernel: usize, device: i32) = attribute;
    cuKernelSetAttribute(attribute: u32, value: i32, kernel: usize, device: i32) = set_attribute;
    cuFuncGetAttribute(value: *mut i32, attribute: u32, function: usize) = function_attribute;
    cuFuncSetAttribute(function: usize, attribute: u32, value: i32) = set_function_attribute;
    cuFuncLoad(function: usize) = load_function;
    cuKernelSetCacheConfig(kernel: usize, config: u32, device: i32) = set_cache;
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut i32, function: usize, threads: i32, shared: usize, flags: u32
    ) = occupancy;
}

/// Bytes of each variable.
const VARIABLE: usize = 4096;
/// Attributes of each kernel: threads of a block, three kinds of memory, registers, versions.
const ATTRIBUTES: [i32; 10] = [1024, 0, 0, 0, 16, 90, 90, 0, 48 << 10, -1];

static VARIABLES: Mutex<BTreeMap<(usize, CString), usize>> = Mutex::new(BTreeMap::new());

/// A kernel is asked for again, and has one handle.
unsafe fn kernel(kernel: *mut usize, library: usize, name: *const c_char) -> u32 {
    // SAFETY: cuLibraryGetKernel demands that `kernel` may be written, and a name that ends with a
    // zero.
    let code = unsafe { function(kernel, library, name) };
    if code == SUCCESS {
        // SAFETY: written by the call.
        let handle = unsafe { *kernel };
        let mut world = world();
        let (name, entry) = (world.names[&handle].clone(), world.entries.get(&handle).cloned());
        let function = world.handle();
        world.owners.insert(function, library);
        world.names.insert(function, name);
        entry.into_iter().for_each(|entry| drop(world.entries.insert(function, entry)));
        world.functions.insert(handle, function);
    }
    code
}

/// The name of a variable that is not in the text begins with `v`.
unsafe fn global(at: *mut usize, bytes: *mut usize, library: usize, name: *const c_char) -> u32 {
    // SAFETY: cuLibraryGetGlobal demands a name that ends with a zero.
    let name = unsafe { CStr::from_ptr(name) }.to_owned();
    if !enter(library) {
        return OUT_OF_MEMORY;
    }
    if let Some((from, len)) = array(library, &name) {
        // SAFETY: cuLibraryGetGlobal demands that `at` and `bytes` may be written; null is left
        // out.
        unsafe {
            give(at, from);
            give(bytes, len);
        }
        return SUCCESS;
    }
    if !name.as_bytes().starts_with(b"v") {
        return NOT_FOUND;
    }
    let mut all = VARIABLES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = all.get(&(library, name.clone())).copied();
    let place = known.map_or_else(
        || {
            let mut new = 0;
            // SAFETY: a place of ours.
            match unsafe { alloc(&raw mut new, VARIABLE) } {
                SUCCESS => Ok(new),
                code => Err(code),
            }
        },
        Ok,
    );
    let place = match place {
        Ok(place) => place,
        Err(code) => return code,
    };
    all.insert((library, name), place);
    // SAFETY: cuLibraryGetGlobal demands that `at` and `bytes` may be written; null is left out.
    unsafe {
        give(at, place);
        give(bytes, VARIABLE);
    }
    SUCCESS
}

unsafe fn count(count: *mut u32, _library: usize) -> u32 {
    // SAFETY: cuLibraryGetKernelCount demands that `count` may be written; null is left out.
    unsafe { give(count, 3) };
    SUCCESS
}

unsafe fn function_of(function: *mut usize, kernel: usize) -> u32 {
    world().check_function(kernel);
    let found = world().functions.get(&kernel).copied().unwrap_or(kernel);
    // SAFETY: cuKernelGetFunction demands that `function` may be written; null is left out.
    unsafe { give(function, found) };
    SUCCESS
}

unsafe fn attribute(value: *mut i32, attribute: u32, _kernel: usize, _device: i32) -> u32 {
    let Some(found) = ATTRIBUTES.get(attribute as usize) else { return INVALID_VALUE };
    // SAFETY: cuKernelGetAttribute demands that `value` may be written; null is left out.
    unsafe { give(value, *found) };
    SUCCESS
}

unsafe fn function_attribute(value: *mut i32, which: u32, function: usize) -> u32 {
    world().check_function(function);
    // SAFETY: cuFuncGetAttribute demands that `value` may be written; null is left out.
    unsafe { attribute(value, which, 0, 0) }
}

unsafe fn set_function_attribute(_function: usize, attribute: u32, _value: i32) -> u32 {
    if matches!(attribute, 8 | 9) { SUCCESS } else { INVALID_VALUE }
}

unsafe fn load_function(_function: usize) -> u32 {
    SUCCESS
}

unsafe fn set_attribute(attribute: u32, _value: i32, _kernel: usize, _device: i32) -> u32 {
    if matches!(attribute, 8 | 9) { SUCCESS } else { INVALID_VALUE }
}

unsafe fn set_cache(_kernel: usize, _config: u32, _device: i32) -> u32 {
    SUCCESS
}

/// 2,048 threads of a unit, and 228 KiB of its shared memory.
unsafe fn occupancy(
    blocks: *mut i32,
    function: usize,
    threads: i32,
    shared: usize,
    _flags: u32,
) -> u32 {
    world().check_function(function);
    if threads <= 0 {
        return INVALID_VALUE;
    }
    let by_memory = i32::try_from((228 << 10) / shared.max(1)).unwrap_or(i32::MAX);
    // SAFETY: the driver demands that `blocks` may be written; null is left out.
    unsafe { give(blocks, by_memory.min(2048 / threads)) };
    SUCCESS
}
