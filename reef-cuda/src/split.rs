//! Parts of the device by multiprocessors (green contexts). Streams of a part run on its
//! multiprocessors alone; others, of the primary context, on all.
//!
//! The device is *split* in two, one part for each class of work. Nothing is preempted between
//! them. It is here to be compared with.

use crate::driver::{BACKEND, Driver};
use cudarc::driver::sys::*;
use reef_core::{Error, Result};
use std::ffi::{c_int, c_uint};

/// `CU_DEV_RESOURCE_TYPE_SM`
const MULTIPROCESSORS: c_uint = 1;
/// `CU_GREEN_CTX_DEFAULT_STREAM`, which every green context must have.
const DEFAULT_STREAM: c_uint = 1;
/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: c_uint = 1;

/// Some of the multiprocessors.
pub(crate) struct Part {
    driver: &'static Driver,
    raw: CUgreenCtx,
}

/// A part for real-time work and the rest for best-effort work.
pub(crate) struct Split {
    pub(crate) real_time: Part,
    pub(crate) best_effort: Part,
}

impl Split {
    /// Gives real-time work at least `units` multiprocessors.
    pub(crate) fn new(driver: &'static Driver, device: CUdevice, units: u32) -> Result<Self> {
        let [part, rest] = divide(driver, device, "split", units)?;
        Ok(Self {
            real_time: Part::new(driver, device, part)?,
            best_effort: Part::new(driver, device, rest)?,
        })
    }
}

impl Part {
    fn new(driver: &'static Driver, device: CUdevice, mut resource: CUdevResource) -> Result<Self> {
        let (mut description, mut raw) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the pointers are valid for the calls.
        unsafe {
            driver.cuDevResourceGenerateDesc(&mut description, &mut resource, 1)?;
            driver.cuGreenCtxCreate(&mut raw, description, device, DEFAULT_STREAM)?;
        }
        Ok(Self { driver, raw })
    }

    /// Opens a stream that runs on these.
    pub(crate) fn stream(&self, priority: c_int) -> Result<CUstream> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call, the context is there.
        unsafe {
            self.driver.cuGreenCtxStreamCreate(&mut stream, self.raw, NON_BLOCKING, priority)
        }?;
        Ok(stream)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // SAFETY: made once; streams are closed before.
        let _ = unsafe { self.driver.cuGreenCtxDestroy(self.raw) };
    }
}

/// Divides the device into at least `units` multiprocessors, and the rest; `option` stands in
/// errors.
fn divide(
    driver: &'static Driver,
    device: CUdevice,
    option: &str,
    units: u32,
) -> Result<[CUdevResource; 2]> {
    let has_all = driver.cuDeviceGetDevResource.is_some()
        && driver.cuGreenCtxCreate.is_some()
        && driver.cuGreenCtxStreamCreate.is_some();
    if !has_all {
        let what = format!("{option}: green contexts, which drivers have from CUDA 12.5 on");
        return Err(Error::Unsupported { backend: BACKEND, what });
    }
    // SAFETY: plain data, filled by the driver below.
    let [mut all, mut part, mut rest]: [CUdevResource; 3] = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call.
    unsafe { driver.cuDeviceGetDevResource(device, &mut all, MULTIPROCESSORS) }?;
    let mut parts = 1;
    // SAFETY: the pointers are valid for the call.
    let divided = unsafe {
        driver.cuDevSmResourceSplitByCount(&mut part, &mut parts, &all, &mut rest, 0, units)
    };
    let why = match divided {
        Ok(()) if parts > 0 => return Ok([part, rest]),
        Ok(()) => String::new(),
        Err(error) => format!(" ({error})"),
    };
    let have = multiprocessors(&all);
    let text = format!("{BACKEND}: {option}={units}: no part of {have} multiprocessors{why}");
    Err(Error::Invalid(text))
}

fn multiprocessors(resource: &CUdevResource) -> u32 {
    // SAFETY: the driver has filled it in as one of multiprocessors, whose count comes first.
    unsafe { resource.__bindgen_anon_1.sm.smCount }
}
