//! The device in two parts by multiprocessors, one for each class of work (green contexts). Nothing is
//! preempted between them; it is here to be compared with.

use crate::driver::{BACKEND, Driver};
use cudarc::driver::sys::*;
use reef_core::{Error, Priority, Result};
use std::ffi::{c_int, c_uint};

/// `CU_DEV_RESOURCE_TYPE_SM`
const MULTIPROCESSORS: c_uint = 1;
/// `CU_GREEN_CTX_DEFAULT_STREAM`, which every green context must have.
const DEFAULT_STREAM: c_uint = 1;
/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: c_uint = 1;

/// A part for real-time work and the rest for best-effort work.
pub(crate) struct Split {
    driver: &'static Driver,
    real_time: CUgreenCtx,
    best_effort: CUgreenCtx,
}

impl Split {
    /// Gives real-time work at least `units` multiprocessors.
    pub(crate) fn new(driver: &'static Driver, device: CUdevice, units: u32) -> Result<Self> {
        // SAFETY: plain data, filled by the driver below.
        let [mut all, mut part, mut rest]: [CUdevResource; 3] = unsafe { std::mem::zeroed() };
        let mut parts = 1;
        // SAFETY: the pointers are valid for the calls.
        unsafe {
            driver.cuDeviceGetDevResource(device, &mut all, MULTIPROCESSORS)?;
            driver.cuDevSmResourceSplitByCount(&mut part, &mut parts, &all, &mut rest, 0, units)?;
        }
        if parts == 0 {
            let text = format!("{BACKEND}: no {units} multiprocessors can be set apart");
            return Err(Error::Invalid(text));
        }
        let real_time = context(driver, device, part)?;
        let best_effort = context(driver, device, rest)?;
        Ok(Self { driver, real_time, best_effort })
    }

    /// Opens a stream in the part of this class.
    pub(crate) fn stream(&self, class: Priority, priority: c_int) -> Result<CUstream> {
        let part = if class == Priority::RealTime { self.real_time } else { self.best_effort };
        let mut stream = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call, the context is there.
        unsafe { self.driver.cuGreenCtxStreamCreate(&mut stream, part, NON_BLOCKING, priority) }?;
        Ok(stream)
    }
}

impl Drop for Split {
    fn drop(&mut self) {
        for part in [self.real_time, self.best_effort] {
            // SAFETY: made once; streams are closed before.
            let _ = unsafe { self.driver.cuGreenCtxDestroy(part) };
        }
    }
}

fn context(
    driver: &'static Driver,
    device: CUdevice,
    mut resource: CUdevResource,
) -> Result<CUgreenCtx> {
    let (mut description, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the pointers are valid for the calls.
    unsafe {
        driver.cuDevResourceGenerateDesc(&mut description, &mut resource, 1)?;
        driver.cuGreenCtxCreate(&mut context, description, device, DEFAULT_STREAM)?;
    }
    Ok(context)
}
