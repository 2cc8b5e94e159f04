//! `cuGetProcAddress`: a function by its name, the version that introduced the variant, and the
//! default stream's kind.

use super::export::plain;
use crate::codes::*;
use crate::played::PLAYED;
use std::ffi::{CStr, c_char};

/// Name, version of CUDA that introduced it (1000 × major + 10 × minor), symbol; from the typedefs
/// of CUDA's headers.
const VERSIONS: &str = include_str!("../../../../interpose/reef-shim/versions.txt");
/// Names that end thus mean per-thread default streams.
const PTSZ_SUFFIXES: [&str; 2] = ["_ptsz", "_ptds"];
/// Flag of a look-up of variants for per-thread default streams.
const PER_THREAD: u64 = 2;
/// `CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND` and `…_VERSION_NOT_SUFFICIENT`.
const NO_SYMBOL: u32 = 1;
const OTHER_VERSION: u32 = 2;

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
    let variants = VERSIONS.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let is_it = words.next() == Some(name);
        let variant = (words.next()?.parse::<i32>().ok()?, words.next()?);
        is_it.then_some(variant)
    });
    let variants: Vec<_> = variants.collect();
    let symbol = match variants.iter().rfind(|(since, _)| *since <= version) {
        Some((_, symbol)) => *symbol,
        None if variants.is_empty() => name, // a name without a typedef
        None => return Err(OTHER_VERSION),
    };
    let ptsz_variants =
        PTSZ_SUFFIXES.iter().filter(|_| is_per_thread).filter_map(|ptsz| address(symbol, ptsz));
    ptsz_variants.chain(address(symbol, "")).next().ok_or(NO_SYMBOL)
}

fn address(symbol: &str, ending: &str) -> Option<usize> {
    let is_it = |played: &&crate::played::Played| played.name.strip_prefix(symbol) == Some(ending);
    PLAYED.iter().find(is_it).map(|played| played.ours as usize)
}
