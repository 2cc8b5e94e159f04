//! `cuGetProcAddress`: a function by its name, the version that introduced the variant, and the
//! default stream's kind.

use super::export::plain;
use crate::played::PLAYED;
use reef_cuda_abi::PTSZ_SUFFIXES;
use reef_cuda_abi::codes::*;
use std::ffi::{CStr, c_char};

/// Flag of a look-up of variants for per-thread default streams.
const PER_THREAD: u64 = 2;

plain! {
    cuGetProcAddress(name: *const c_char, to: *mut usize, version: i32, flags: u64) = find;
    cuGetProcAddress_v2(name: *const c_char, to: *mut usize, version: i32, flags: u64, status: *mut u32) = find_with_status;
}

unsafe fn find(name: *const c_char, to: *mut usize, version: i32, flags: u64) -> Result<(), u32> {
    // SAFETY: cuGetProcAddress demands that `name` is null or ends with a zero, and that `to` is
    // null or may be written. The status is null.
    unsafe { find_with_status(name, to, version, flags, std::ptr::null_mut()) }
}

unsafe fn find_with_status(
    name: *const c_char,
    to: *mut usize,
    version: i32,
    flags: u64,
    status: *mut u32,
) -> Result<(), u32> {
    if name.is_null() || to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and cuGetProcAddress demands a name that ends with a zero.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    if name.is_empty() {
        return Err(INVALID_VALUE);
    }
    let found = symbol(&name, version, flags & PER_THREAD != 0);
    // SAFETY: `to` is not null, and cuGetProcAddress demands that `to`, and `status` if it is not
    // null, may be written.
    unsafe {
        to.write(found.unwrap_or(0));
        if !status.is_null() {
            status.write(found.err().unwrap_or(0));
        }
    }
    if found.is_err() && status.is_null() { Err(NOT_FOUND) } else { Ok(()) }
}

/// The function's address, or a status.
fn symbol(name: &str, version: i32, is_per_thread: bool) -> Result<usize, u32> {
    let symbol = reef_cuda_abi::symbol(name, version).ok_or(VERSION_NOT_SUFFICIENT)?;
    let ptsz_variants =
        PTSZ_SUFFIXES.iter().filter(|_| is_per_thread).filter_map(|ptsz| address(symbol, ptsz));
    ptsz_variants.chain(address(symbol, "")).next().ok_or(SYMBOL_NOT_FOUND)
}

fn address(symbol: &str, ending: &str) -> Option<usize> {
    let is_it = |played: &&crate::played::Played| played.name.strip_prefix(symbol) == Some(ending);
    PLAYED.iter().find(is_it).map(|played| played.ours as usize)
}
