//! The driver's functions by name, for programs that call both.

use crate::calls::export::{give, plain};
use crate::codes::*;
use crate::driver::driver;
use std::ffi::c_char;

plain! {
    cudaGetDriverEntryPoint(name: *const c_char, to: *mut usize, flags: u64, status: *mut u32) = find;
    cudaGetDriverEntryPoint_ptsz(name: *const c_char, to: *mut usize, flags: u64, status: *mut u32) = find_ptsz;
    cudaGetDriverEntryPoint_v13(name: *const c_char, to: *mut usize, flags: u64, status: *mut u32) = find_13;
    cudaGetDriverEntryPoint_v13_ptsz(name: *const c_char, to: *mut usize, flags: u64, status: *mut u32) = find_13_ptsz;
    cudaGetDriverEntryPointByVersion(
        name: *const c_char, to: *mut usize, version: u32, flags: u64, status: *mut u32
    ) = find_version;
    cudaGetDriverEntryPointByVersion_ptsz(
        name: *const c_char, to: *mut usize, version: u32, flags: u64, status: *mut u32
    ) = find_version_ptsz;
}

/// Releases whose variants are found if the program names none.
const RELEASE_12: u32 = 12_090;
const RELEASE_13: u32 = 13_000;
/// `cudaEnableLegacyStream` and `cudaEnablePerThreadDefaultStream`.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

unsafe fn find_version(
    name: *const c_char,
    to: *mut usize,
    version: u32,
    flags: u64,
    status: *mut u32,
) -> Result<(), u32> {
    let driver = driver()?;
    if name.is_null() || to.is_null() {
        return Err(INVALID_VALUE);
    }
    let version = i32::try_from(version).map_err(|_| INVALID_VALUE)?;
    let mut found = 0;
    // SAFETY: neither is null, and cudaGetDriverEntryPoint demands a name that ends with a zero and
    // that `to` may be written. `found` is a local.
    let result = unsafe { driver.cuGetProcAddress_v2(name, to, version, flags, &raw mut found) };
    if !status.is_null() {
        // SAFETY: not null, and cudaGetDriverEntryPoint demands that `status` may be written.
        unsafe { give(status, found) }?;
        return Ok(());
    }
    match (result, found) {
        (Err(code), _) => Err(code),
        (Ok(()), 0) => Ok(()),
        (Ok(()), _) => Err(NOT_FOUND),
    }
}

fn of_ptsz(flags: u64) -> u64 {
    if flags & LEGACY == 0 { flags | PER_THREAD } else { flags }
}

unsafe fn find_version_ptsz(
    name: *const c_char,
    to: *mut usize,
    version: u32,
    flags: u64,
    status: *mut u32,
) -> Result<(), u32> {
    // SAFETY: cudaGetDriverEntryPointByVersion demands that `name` ends with a zero, and that `to`
    // and `status` are null or may be written.
    unsafe { find_version(name, to, version, of_ptsz(flags), status) }
}

unsafe fn find(
    name: *const c_char,
    to: *mut usize,
    flags: u64,
    status: *mut u32,
) -> Result<(), u32> {
    // SAFETY: cudaGetDriverEntryPoint demands that `name` ends with a zero, and that `to` and
    // `status` are null or may be written.
    unsafe { find_version(name, to, RELEASE_12, flags, status) }
}

unsafe fn find_ptsz(
    name: *const c_char,
    to: *mut usize,
    flags: u64,
    status: *mut u32,
) -> Result<(), u32> {
    // SAFETY: cudaGetDriverEntryPoint demands that `name` ends with a zero, and that `to` and
    // `status` are null or may be written.
    unsafe { find_version(name, to, RELEASE_12, of_ptsz(flags), status) }
}

unsafe fn find_13(
    name: *const c_char,
    to: *mut usize,
    flags: u64,
    status: *mut u32,
) -> Result<(), u32> {
    // SAFETY: cudaGetDriverEntryPoint demands that `name` ends with a zero, and that `to` and
    // `status` are null or may be written.
    unsafe { find_version(name, to, RELEASE_13, flags, status) }
}

unsafe fn find_13_ptsz(
    name: *const c_char,
    to: *mut usize,
    flags: u64,
    status: *mut u32,
) -> Result<(), u32> {
    // SAFETY: cudaGetDriverEntryPoint demands that `name` ends with a zero, and that `to` and
    // `status` are null or may be written.
    unsafe { find_version(name, to, RELEASE_13, of_ptsz(flags), status) }
}
