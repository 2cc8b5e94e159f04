//! Questions about kernels, and their settings.

use crate::calls::export::{give, plain};
use crate::codes::*;
use crate::driver::Driver;
use crate::state::context::{device, enter};
use crate::state::loaded::kernel;
use crate::state::registered::function;
use std::ffi::c_char;

plain! {
    cudaFuncGetAttributes(attributes: *mut FunctionAttributes, function: usize) = attributes_of;
    cudaFuncSetAttribute(function: usize, attribute: u32, value: i32) = set_attribute;
    cudaFuncSetCacheConfig(function: usize, config: u32) = set_cache_config;
    cudaFuncSetSharedMemConfig(function: usize, config: u32) = set_shared_config;
    cudaFuncGetName(name: *mut *const c_char, function: usize) = name_of;
    cudaFuncGetParamInfo(function: usize, index: usize, offset: *mut usize, bytes: *mut usize) = param_info;
    cudaFuncGetParamCount(function: usize, count: *mut usize) = param_count;
    cudaGetFuncBySymbol(to: *mut usize, function: usize) = driver_function;
    cudaGetKernel(to: *mut usize, function: usize) = driver_kernel;
    cudaKernelSetAttributeForDevice(kernel: usize, attribute: u32, value: i32, device: i32) = set_for_device;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut i32, function: usize, threads: i32, shared: usize
    ) = blocks;
    cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut i32, function: usize, threads: i32, shared: usize, flags: u32
    ) = blocks_with_flags;
    cudaOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize, function: usize, blocks: i32, threads: i32
    ) = available_shared;
}

/// `cudaFuncAttributes`, as far as both releases have it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct FunctionAttributes {
    shared: usize,
    constant: usize,
    local: usize,
    max_threads: i32,
    registers: i32,
    ptx_version: i32,
    binary_version: i32,
    caches_all: i32,
    max_dynamic_shared: i32,
    carveout: i32,
    must_have_cluster: i32,
    cluster: [i32; 3],
    cluster_policy: i32,
    may_exceed_cluster: i32,
    reserved: [i32; 16],
}

// As the headers of both releases have it (tests/programs/layouts.c).
const _: () = assert!(size_of::<FunctionAttributes>() == 144);
const _: () = assert!(std::mem::offset_of!(FunctionAttributes, cluster) == 56);
const _: () = assert!(std::mem::offset_of!(FunctionAttributes, may_exceed_cluster) == 72);

unsafe fn attributes_of(attributes: *mut FunctionAttributes, function: usize) -> Result<(), u32> {
    let driver = enter()?;
    let (kernel, device) = (kernel(driver, function)?, device(driver)?);
    let get = |attribute| get(driver, kernel, device, attribute);
    // Attributes of clusters are newer than the others.
    let newer = |attribute| get(attribute).unwrap_or(0);
    let found = FunctionAttributes {
        shared: get(1)? as usize,
        constant: get(2)? as usize,
        local: get(3)? as usize,
        max_threads: get(0)?,
        registers: get(4)?,
        ptx_version: get(5)?,
        binary_version: get(6)?,
        caches_all: get(7)?,
        max_dynamic_shared: get(8)?,
        carveout: get(9)?,
        must_have_cluster: newer(10),
        cluster: [newer(11), newer(12), newer(13)],
        may_exceed_cluster: newer(14),
        cluster_policy: newer(15),
        reserved: [0; 16],
    };
    // SAFETY: cudaFuncGetAttributes demands that `attributes` may be written; `give` refuses null.
    unsafe { give(attributes, found) }
}

fn get(driver: &Driver, kernel: usize, device: i32, attribute: u32) -> Result<i32, u32> {
    let mut value = 0;
    // SAFETY: a place for a number, a kernel of the driver's.
    unsafe { driver.cuKernelGetAttribute(&raw mut value, attribute, kernel, device) }?;
    Ok(value)
}

fn set_attribute(function: usize, attribute: u32, value: i32) -> Result<(), u32> {
    let driver = enter()?;
    let (kernel, device) = (kernel(driver, function)?, device(driver)?);
    // SAFETY: numbers, a kernel of the driver's.
    unsafe { driver.cuKernelSetAttribute(attribute, value, kernel, device) }
}

fn set_for_device(kernel: usize, attribute: u32, value: i32, device: i32) -> Result<(), u32> {
    let driver = enter()?;
    let kernel = self::kernel(driver, kernel)?;
    // SAFETY: numbers, and a kernel of the driver's, which it checks.
    unsafe { driver.cuKernelSetAttribute(attribute, value, kernel, device) }
}

fn set_cache_config(function: usize, config: u32) -> Result<(), u32> {
    let driver = enter()?;
    let (kernel, device) = (kernel(driver, function)?, device(driver)?);
    // SAFETY: numbers, and a kernel of the driver's, which it checks.
    unsafe { driver.cuKernelSetCacheConfig(kernel, config, device) }
}

/// Devices of today have one configuration.
fn set_shared_config(function: usize, _config: u32) -> Result<(), u32> {
    kernel(enter()?, function).map(|_| ())
}

unsafe fn name_of(name: *mut *const c_char, at: usize) -> Result<(), u32> {
    let found = function(at).ok_or(INVALID_FUNCTION)?;
    // The name lives as long as the kernel is registered.
    // SAFETY: cudaFuncGetName demands that `name` may be written; `give` refuses null.
    unsafe { give(name, found.name.as_ptr()) }
}

unsafe fn param_info(
    function: usize,
    index: usize,
    offset: *mut usize,
    bytes: *mut usize,
) -> Result<(), u32> {
    let driver = enter()?;
    let kernel = kernel(driver, function)?;
    // SAFETY: cudaFuncGetParamInfo demands that `offset` may be written, and `bytes` if it is not
    // null. Both are passed on unread, with a kernel of the driver's.
    unsafe { driver.cuKernelGetParamInfo(kernel, index, offset, bytes) }
}

unsafe fn param_count(function: usize, count: *mut usize) -> Result<(), u32> {
    let driver = enter()?;
    let kernel = kernel(driver, function)?;
    let has = |index: &usize| {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: places for numbers, a kernel of the driver's.
        unsafe { driver.cuKernelGetParamInfo(kernel, *index, &raw mut offset, &raw mut bytes) }
            .is_ok()
    };
    // SAFETY: cudaFuncGetParamCount demands that `count` may be written; `give` refuses null.
    unsafe { give(count, (0..).take_while(has).count()) }
}

unsafe fn driver_function(to: *mut usize, function: usize) -> Result<(), u32> {
    let driver = enter()?;
    let kernel = kernel(driver, function)?;
    // SAFETY: cudaGetFuncBySymbol demands that `to` may be written. It is passed on unread, with a
    // kernel of the driver's.
    unsafe { driver.cuKernelGetFunction(to, kernel) }
}

unsafe fn driver_kernel(to: *mut usize, function: usize) -> Result<(), u32> {
    // SAFETY: cudaGetKernel demands that `to` may be written; `give` refuses null.
    unsafe { give(to, kernel(enter()?, function)?) }
}

unsafe fn blocks(
    blocks: *mut i32,
    function: usize,
    threads: i32,
    shared: usize,
) -> Result<(), u32> {
    // SAFETY: cudaOccupancyMaxActiveBlocksPerMultiprocessor has the same demand as with flags:
    // `blocks` may be written.
    unsafe { blocks_with_flags(blocks, function, threads, shared, 0) }
}

unsafe fn blocks_with_flags(
    blocks: *mut i32,
    function: usize,
    threads: i32,
    shared: usize,
    flags: u32,
) -> Result<(), u32> {
    let driver = enter()?;
    let kernel = kernel(driver, function)?;
    // SAFETY: the runtime demands that `blocks` may be written. It is passed on unread, with a
    // kernel of the driver's.
    unsafe {
        driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            blocks, kernel, threads, shared, flags,
        )
    }
}

unsafe fn available_shared(
    bytes: *mut usize,
    function: usize,
    blocks: i32,
    threads: i32,
) -> Result<(), u32> {
    let driver = enter()?;
    let kernel = kernel(driver, function)?;
    // SAFETY: cudaOccupancyAvailableDynamicSMemPerBlock demands that `bytes` may be written. It is
    // passed on unread, with a kernel of the driver's.
    unsafe { driver.cuOccupancyAvailableDynamicSMemPerBlock(bytes, kernel, blocks, threads) }
}
