//! Contexts: the program's own current one, or the primary one of the thread's device.

use crate::codes::INVALID_DEVICE;
use crate::driver::{Driver, driver};
use crate::thread::in_thread;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Primary contexts that this library retains, by their devices.
fn retained() -> MutexGuard<'static, HashMap<i32, usize>> {
    static ALL: OnceLock<Mutex<HashMap<i32, usize>>> = OnceLock::new();
    ALL.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the driver, with a context current in the calling thread.
///
/// # Errors
///
/// The code of what can't be had: a driver, a device, a context.
pub(crate) fn enter() -> Result<&'static Driver, u32> {
    let driver = driver()?;
    if current(driver)? == 0 {
        make_current(driver, in_thread(|thread| thread.device.get())?)?;
    }
    Ok(driver)
}

/// Returns the current context; zero: none.
///
/// # Errors
///
/// The driver's code.
pub(crate) fn current(driver: &Driver) -> Result<usize, u32> {
    let mut context = 0;
    // SAFETY: a place for a handle.
    unsafe { driver.cuCtxGetCurrent(&raw mut context) }?;
    Ok(context)
}

/// Returns a device's primary context.
///
/// # Errors
///
/// The driver's code.
pub(crate) fn primary(driver: &Driver, device: i32) -> Result<usize, u32> {
    let mut retained = retained();
    if let Some(context) = retained.get(&device) {
        return Ok(*context);
    }
    let mut context = 0;
    // SAFETY: a place for a handle.
    unsafe { driver.cuDevicePrimaryCtxRetain(&raw mut context, device) }?;
    retained.insert(device, context);
    Ok(context)
}

/// Makes a device's primary context current.
///
/// # Errors
///
/// The driver's code.
pub(crate) fn make_current(driver: &Driver, device: i32) -> Result<(), u32> {
    let context = primary(driver, device)?;
    // SAFETY: a context of the driver's.
    unsafe { driver.cuCtxSetCurrent(context) }
}

/// Sets the calling thread's device, and makes its primary context current.
///
/// # Errors
///
/// `INVALID_DEVICE`, or the driver's code.
pub(crate) fn set_device(device: i32) -> Result<(), u32> {
    let driver = driver()?;
    check_device(driver, device)?;
    make_current(driver, device)?;
    in_thread(|thread| thread.device.set(device))
}

/// Checks a device's number.
///
/// # Errors
///
/// `INVALID_DEVICE`, or the driver's code.
pub(crate) fn check_device(driver: &Driver, device: i32) -> Result<(), u32> {
    let mut count = 0;
    // SAFETY: a place for a number.
    unsafe { driver.cuDeviceGetCount(&raw mut count) }?;
    if (0..count).contains(&device) { Ok(()) } else { Err(INVALID_DEVICE) }
}

/// Returns the device of the current context, or the one that the thread will use.
///
/// # Errors
///
/// The driver's code.
pub(crate) fn device(driver: &Driver) -> Result<i32, u32> {
    if current(driver)? == 0 {
        return in_thread(|thread| thread.device.get());
    }
    let mut device = 0;
    // SAFETY: a place for a number.
    unsafe { driver.cuCtxGetDevice(&raw mut device) }?;
    Ok(device)
}

/// Ends the primary context of the thread's device.
///
/// # Errors
///
/// The driver's code.
pub(crate) fn reset() -> Result<(), u32> {
    let driver = driver()?;
    let device = device(driver)?;
    let context = retained().remove(&device);
    // SAFETY: a device's number, and no context.
    unsafe {
        driver.cuDevicePrimaryCtxReset_v2(device)?;
        if context == Some(current(driver)?) {
            driver.cuCtxSetCurrent(0)?;
        }
    }
    crate::thread::forget_error();
    in_thread(|thread| thread.device.set(device))
}
