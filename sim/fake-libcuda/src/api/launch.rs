//! Modules and launches: a function is its name.

use super::context::devices;
use super::current;
use super::export::{give, plain, ptsz};
use super::streams::give_to;
use crate::engine::blocks::{Launched, PtxKernel, entry};
use crate::engine::op::{Kernel, Op};
use crate::engine::world::world;
use reef_cuda_abi::codes::*;
use reef_cuda_abi::layouts::{LaunchAttribute, LaunchConfig, LaunchParams};
use std::ffi::{CStr, c_char};
use std::hint::black_box;
use std::sync::Arc;

plain! {
    cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) = function;
    cuFuncGetParamInfo(function: usize, index: usize, offset: *mut usize, bytes: *mut usize) = param;
    cuLaunchCooperativeKernelMultiDevice(launches: *const LaunchParams, count: u32, flags: u32) = several;
}

ptsz! {
    cuLaunchKernel / cuLaunchKernel_ptsz(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: usize, params: *const *const u64, extra: usize
    ) = launch;
    cuLaunchCooperativeKernel / cuLaunchCooperativeKernel_ptsz(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: usize, params: *const *const u64
    ) = cooperative;
    cuLaunchKernelEx / cuLaunchKernelEx_ptsz(
        config: *const LaunchConfig, function: usize, params: *const *const u64, extra: usize
    ) = launch_ex;
    cuMemBatchDecompressAsync / cuMemBatchDecompressAsync_ptsz(
        params: *const Packed, count: usize, flags: u32, error: *mut usize, stream: usize
    ) = unpack;
}

/// Code of an attribute that the driver refuses. An event is used as it is, as the driver does.
fn check(attribute: &LaunchAttribute) -> u32 {
    const LAST: u32 = 14;
    const FLAGS: [u32; 2] = [2, 6]; // cooperative, programmatic stream serialization
    const EVENTS: [u32; 2] = [7, 12];
    let LaunchAttribute { kind, value } = attribute;
    let event = value[0] as usize;
    if EVENTS.contains(kind) && !world().events.contains_key(&event) {
        // SAFETY: none: a wild address ends the process, as it may in the driver.
        black_box(unsafe { (event as *const u64).read_volatile() });
        return INVALID_HANDLE;
    }
    let is_wrong = FLAGS.contains(kind) && value[0] as u32 > 1;
    if *kind > LAST || is_wrong { INVALID_VALUE } else { SUCCESS }
}

/// `CUmemDecompressParams`. Here nothing is compressed.
#[repr(C)]
struct Packed {
    bytes: [usize; 2],
    unpacked: *mut u32,
    from: usize,
    to: usize,
    rest: [u32; 6],
}

unsafe fn several(launches: *const LaunchParams, count: u32, _flags: u32) -> u32 {
    if count > devices() as u32 {
        return INVALID_VALUE;
    }
    for at in 0..count as usize {
        // SAFETY: cuLaunchCooperativeKernelMultiDevice demands `count` launches with an address of
        // each parameter, and `at` is lower.
        let code = unsafe {
            let one = &*launches.add(at);
            start(false, one.function, one.stream, one.params as *const *const u64)
        };
        if code != SUCCESS {
            return code;
        }
    }
    SUCCESS
}

unsafe fn unpack(
    is_ptsz: bool,
    params: *const Packed,
    count: usize,
    _flags: u32,
    _error: *mut usize,
    stream: usize,
) -> u32 {
    for at in 0..count {
        // SAFETY: cuMemBatchDecompressAsync demands a list of `count` entries, and `at` is lower.
        let Packed { from, to, bytes, .. } = unsafe { &*params.add(at) };
        let op = Op::Copy { to: *to, from: *from, bytes: bytes[1] };
        let code = give_to(is_ptsz, stream, op);
        if code != SUCCESS {
            return code;
        }
    }
    SUCCESS
}

pub(crate) unsafe fn function(function: *mut usize, module: usize, name: *const c_char) -> u32 {
    // SAFETY: cuModuleGetFunction demands a name that ends with a zero.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    let mut world = world();
    let text = world.texts.get(&module).cloned();
    // Digests of megabytes would take the interpreter minutes.
    let text = text.filter(|_| Kernel::named(&name) != Some(Kernel::Digest));
    let entry = text.and_then(|text| entry(&text, &name));
    if entry.is_none() && Kernel::named(&name).is_none() {
        return NOT_FOUND;
    }
    let handle = world.handle();
    world.owners.insert(handle, module);
    world.names.insert(handle, name);
    entry.into_iter().for_each(|entry| drop(world.entries.insert(handle, entry)));
    // SAFETY: cuModuleGetFunction demands that `function` may be written; null is left out.
    unsafe { give(function, handle) };
    SUCCESS
}

/// Each of the kernels by name has two parameters of 64 bits.
pub(crate) unsafe fn param(
    function: usize,
    index: usize,
    offset: *mut usize,
    bytes: *mut usize,
) -> u32 {
    world().check_function(function);
    if !world().names.contains_key(&function) {
        return INVALID_HANDLE;
    }
    let own = world().entries.get(&function).map(|entry| entry.parameters.clone());
    let Some(place) = own.unwrap_or_else(|| vec![(0, 8), (8, 8)]).get(index).copied() else {
        return INVALID_VALUE;
    };
    // SAFETY: cuFuncGetParamInfo demands that `offset` may be written, and `bytes` if it is not
    // null; null is left out.
    unsafe {
        give(offset, place.0);
        give(bytes, place.1);
    }
    SUCCESS
}

/// Launches a kernel in PTX.
///
/// # Safety
///
/// There is an address of each of its parameters.
unsafe fn start_blocks(
    is_ptsz: bool,
    function: usize,
    entry: Arc<PtxKernel>,
    stream: usize,
    sides: [[u32; 3]; 2],
    shared: u32,
    params: *const *const u64,
) -> u32 {
    // SAFETY: `# Safety` demands an address of each parameter, which `Launched::new` copies.
    let launched =
        unsafe { Launched::new(entry, [function, current::handle()], sides, shared, params) };
    let Some(launched) = launched else { return INVALID_VALUE };
    let mut world = world();
    let number = world.number();
    world.launched.insert(number, Arc::new(launched));
    drop(world);
    give_to(is_ptsz, stream, Op::Blocks(number))
}

unsafe fn start(is_ptsz: bool, function: usize, stream: usize, params: *const *const u64) -> u32 {
    let kernel = world().names.get(&function).and_then(|name| Kernel::named(name));
    let Some(kernel) = kernel else { return INVALID_HANDLE };
    if params.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: each of the kernels has two arguments of 64 bits.
    let (to, value) = unsafe { (**params, **params.add(1)) };
    give_to(is_ptsz, stream, Op::Kernel(kernel, to, value))
}

#[allow(clippy::too_many_arguments)] // the driver's
unsafe fn launch(
    is_ptsz: bool,
    function: usize,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    stream: usize,
    params: *const *const u64,
    _extra: usize,
) -> u32 {
    if grid_x == 0 || grid_y == 0 || grid_z == 0 {
        return INVALID_VALUE;
    }
    let entry = world().entries.get(&function).cloned();
    // SAFETY: cuLaunchKernel demands an address of each parameter in `params`. Null is refused
    // where there are parameters.
    unsafe {
        match entry {
            Some(entry) => {
                let sides = [[grid_x, grid_y, grid_z], [block_x, block_y, block_z]];
                start_blocks(is_ptsz, function, entry, stream, sides, shared, params)
            }
            None => start(is_ptsz, function, stream, params),
        }
    }
}

#[allow(clippy::too_many_arguments)] // the driver's
unsafe fn cooperative(
    is_ptsz: bool,
    function: usize,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    stream: usize,
    params: *const *const u64,
) -> u32 {
    // SAFETY: cuLaunchCooperativeKernel demands an address of each parameter in `params`, as
    // cuLaunchKernel does.
    unsafe {
        launch(
            is_ptsz, function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
            params, 0,
        )
    }
}

unsafe fn launch_ex(
    is_ptsz: bool,
    config: *const LaunchConfig,
    function: usize,
    params: *const *const u64,
    _extra: usize,
) -> u32 {
    // SAFETY: cuLaunchKernelEx demands a `CUlaunchConfig` with `count` attributes, and an address
    // of each parameter in `params`.
    unsafe {
        let LaunchConfig { grid, block, stream, shared, attributes, count } = *config;
        for at in 0..count as usize {
            let code = check(&*attributes.add(at));
            if code != SUCCESS {
                return code;
            }
        }
        let entry = world().entries.get(&function).cloned();
        match entry {
            Some(entry) => {
                start_blocks(is_ptsz, function, entry, stream, [grid, block], shared, params)
            }
            None => start(is_ptsz, function, stream, params),
        }
    }
}
