//! Devices: how many there are, which one a thread uses, their names.

use crate::calls::export::{give, plain};
use crate::codes::*;
use crate::driver::{driver, found};
use crate::state::context::{check_device, device, enter, make_current, reset, set_device};
use std::ffi::c_char;

plain! {
    cudaGetDeviceCount(count: *mut i32) = count;
    cudaGetDevice(device: *mut i32) = get;
    cudaSetDevice(device: i32) = set_device;
    cudaInitDevice(device: i32, device_flags: u32, flags: u32) = init;
    cudaChooseDevice(device: *mut i32, wanted: usize) = choose;
    cudaDeviceReset() = reset;
    cudaThreadExit() = reset;
    cudaDeviceSynchronize() = synchronize;
    cudaThreadSynchronize() = synchronize;
    cudaDeviceGetAttribute(value: *mut i32, attribute: u32, device: i32) = attribute;
    cudaDeviceGetPCIBusId(name: *mut c_char, len: i32, device: i32) = pci;
    cudaDeviceGetByPCIBusId(device: *mut i32, name: *const c_char) = by_pci;
    cudaDriverGetVersion(version: *mut i32) = driver_version;
    cudaRuntimeGetVersion(version: *mut i32) = version_of_12;
    cudaRuntimeGetVersion_v13(version: *mut i32) = version_of_13;
}

unsafe fn count(count: *mut i32) -> Result<(), u32> {
    if count.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and cudaGetDeviceCount demands that `count` may be written, as the driver's
    // function does.
    unsafe {
        count.write(0);
        driver()?.cuDeviceGetCount(count)
    }
}

unsafe fn get(to: *mut i32) -> Result<(), u32> {
    // SAFETY: cudaGetDevice demands that `to` may be written; `give` refuses null.
    unsafe { give(to, device(driver()?)?) }
}

fn init(device: i32, device_flags: u32, flags: u32) -> Result<(), u32> {
    let driver = driver()?;
    check_device(driver, device)?;
    if flags & 1 != 0 {
        // cudaInitDeviceFlagsAreValid
        // SAFETY: numbers.
        unsafe { driver.cuDevicePrimaryCtxSetFlags_v2(device, device_flags & !0x08) }?;
    }
    let before = crate::state::context::current(driver)?;
    make_current(driver, device)?;
    if before != 0 {
        // SAFETY: the context that was current.
        unsafe { driver.cuCtxSetCurrent(before) }?;
    }
    Ok(())
}

/// The first device does: programs with several choose by themselves.
unsafe fn choose(device: *mut i32, wanted: usize) -> Result<(), u32> {
    check_device(driver()?, 0)?;
    if wanted == 0 {
        return Err(INVALID_VALUE);
    }
    // SAFETY: cudaChooseDevice demands that `device` may be written; `give` refuses null. The
    // properties are not read.
    unsafe { give(device, 0) }
}

fn synchronize() -> Result<(), u32> {
    // SAFETY: no arguments.
    unsafe { enter()?.cuCtxSynchronize() }
}

unsafe fn attribute(value: *mut i32, attribute: u32, device: i32) -> Result<(), u32> {
    let driver = driver()?;
    check_device(driver, device)?;
    // SAFETY: cudaDeviceGetAttribute demands that `value` may be written. It is passed on unread,
    // and the driver refuses null.
    unsafe { driver.cuDeviceGetAttribute(value, attribute, device) }
}

unsafe fn pci(name: *mut c_char, len: i32, device: i32) -> Result<(), u32> {
    let driver = driver()?;
    check_device(driver, device)?;
    // SAFETY: cudaDeviceGetPCIBusId demands that `len` bytes may be written to `name`, which is
    // passed on unread.
    unsafe { driver.cuDeviceGetPCIBusId(name, len, device) }
}

unsafe fn by_pci(device: *mut i32, name: *const c_char) -> Result<(), u32> {
    // SAFETY: cudaDeviceGetByPCIBusId demands that `device` may be written, and a name that ends
    // with a zero. Both are passed on unread.
    unsafe { driver()?.cuDeviceGetByPCIBusId(device, name) }
}

/// Zero: there is no driver.
unsafe fn driver_version(version: *mut i32) -> Result<(), u32> {
    if version.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and cudaDriverGetVersion demands that `version` may be written, as the
    // driver's function does.
    unsafe {
        version.write(0);
        found().map_or(Ok(()), |driver| driver.cuDriverGetVersion(version))
    }
}

unsafe fn version_of_12(version: *mut i32) -> Result<(), u32> {
    // SAFETY: cudaRuntimeGetVersion demands that `version` may be written; `give` refuses null.
    unsafe { give(version, 12_090) }
}

unsafe fn version_of_13(version: *mut i32) -> Result<(), u32> {
    // SAFETY: cudaRuntimeGetVersion demands that `version` may be written; `give` refuses null.
    unsafe { give(version, 13_000) }
}
