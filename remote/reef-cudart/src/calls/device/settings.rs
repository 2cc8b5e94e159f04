//! Settings of a device's context.

use crate::calls::export::{forward, plain};
use crate::codes::*;
use crate::driver::driver;
use crate::state::context::{check_device, device};

forward! {
    cudaDeviceGetLimit(value: *mut usize, limit: u32) => cuCtxGetLimit(value, limit);
    cudaDeviceSetLimit(limit: u32, value: usize) => cuCtxSetLimit(limit, value);
    cudaDeviceGetCacheConfig(config: *mut u32) => cuCtxGetCacheConfig(config);
    cudaDeviceSetCacheConfig(config: u32) => cuCtxSetCacheConfig(config);
    cudaDeviceGetSharedMemConfig(config: *mut u32) => cuCtxGetSharedMemConfig(config);
    cudaDeviceSetSharedMemConfig(config: u32) => cuCtxSetSharedMemConfig(config);
    cudaThreadGetLimit(value: *mut usize, limit: u32) => cuCtxGetLimit(value, limit);
    cudaThreadSetLimit(limit: u32, value: usize) => cuCtxSetLimit(limit, value);
    cudaThreadGetCacheConfig(config: *mut u32) => cuCtxGetCacheConfig(config);
    cudaThreadSetCacheConfig(config: u32) => cuCtxSetCacheConfig(config);
    cudaDeviceGetStreamPriorityRange(least: *mut i32, greatest: *mut i32)
        => cuCtxGetStreamPriorityRange(least, greatest);
    cudaProfilerStart() => cuProfilerStart();
    cudaProfilerStop() => cuProfilerStop();
}

plain! {
    cudaSetDeviceFlags(flags: u32) = set_flags;
    cudaGetDeviceFlags(flags: *mut u32) = flags_of;
}

/// `cudaDeviceMapHost`: each device maps host memory.
const MAP_HOST: u32 = 0x08;

fn set_flags(flags: u32) -> Result<(), u32> {
    let driver = driver()?;
    let device = device(driver)?;
    check_device(driver, device)?;
    // SAFETY: numbers.
    unsafe { driver.cuDevicePrimaryCtxSetFlags_v2(device, flags & !MAP_HOST) }
}

unsafe fn flags_of(flags: *mut u32) -> Result<(), u32> {
    let driver = driver()?;
    let device = device(driver)?;
    if flags.is_null() {
        return Err(INVALID_VALUE);
    }
    let mut is_active = 0;
    // SAFETY: not null, and cudaGetDeviceFlags demands that `flags` may be written, which the
    // driver does first. `is_active` is a local.
    unsafe {
        driver.cuDevicePrimaryCtxGetState(device, flags, &raw mut is_active)?;
        *flags |= MAP_HOST;
    }
    Ok(())
}
