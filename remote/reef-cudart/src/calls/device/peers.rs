//! Devices that use each other's memory.

use crate::calls::export::plain;
use crate::codes::*;
use crate::driver::driver;
use crate::state::context::{check_device, enter, primary};

plain! {
    cudaDeviceCanAccessPeer(can: *mut i32, device: i32, peer: i32) = can_access;
    cudaDeviceEnablePeerAccess(peer: i32, flags: u32) = enable;
    cudaDeviceDisablePeerAccess(peer: i32) = disable;
    cudaDeviceGetP2PAttribute(value: *mut i32, attribute: u32, from: i32, to: i32) = attribute;
}

unsafe fn can_access(can: *mut i32, device: i32, peer: i32) -> Result<(), u32> {
    let driver = driver()?;
    check_device(driver, device)?;
    check_device(driver, peer)?;
    // SAFETY: cudaDeviceCanAccessPeer demands that `can` may be written. It is passed on unread,
    // and the driver refuses null.
    unsafe { driver.cuDeviceCanAccessPeer(can, device, peer) }
}

fn enable(peer: i32, flags: u32) -> Result<(), u32> {
    let driver = enter()?;
    check_device(driver, peer)?;
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    // SAFETY: a context of the driver's.
    unsafe { driver.cuCtxEnablePeerAccess(primary(driver, peer)?, flags) }
}

fn disable(peer: i32) -> Result<(), u32> {
    let driver = enter()?;
    check_device(driver, peer)?;
    // SAFETY: a context of the driver's.
    unsafe { driver.cuCtxDisablePeerAccess(primary(driver, peer)?) }
}

unsafe fn attribute(value: *mut i32, attribute: u32, from: i32, to: i32) -> Result<(), u32> {
    // SAFETY: cudaDeviceGetP2PAttribute demands that `value` may be written. It is passed on
    // unread, and the driver refuses null.
    unsafe { driver()?.cuDeviceGetP2PAttribute(value, attribute, from, to) }
}
