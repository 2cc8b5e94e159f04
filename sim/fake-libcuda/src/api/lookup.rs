//! `cuGetProcAddress`: a function by its name, the version that introduced the variant, and the
//! default stream's kind.

use super::export::{give, plain};
use crate::engine::world::world;
use reef_cuda_abi::PTSZ_SUFFIXES;
use reef_cuda_abi::codes::*;
use std::ffi::{CStr, CString, c_char, c_void};

/// Version of CUDA for which the function that `REEF_FAKE_NEWER` names has a variant that no header
/// has: an allocation.
const NEWER: i32 = 14_000;

plain! {
    cuGetProcAddress(name: *const c_char, to: *mut usize, version: i32, flags: u64) = find;
    cuGetProcAddress_v2(
        name: *const c_char, to: *mut usize, version: i32, flags: u64, status: *mut u32
    ) = find_with_status;
    cuGetExportTable(table: *mut *const c_void, uuid: *const [u8; 16]) = export_table;
    reef_fake_lookups(found: *mut u64, not_found: *mut u64) = lookups;
    reef_fake_waits(waits: *mut u64) = waits;
    reef_fake_newer(to: *mut usize, bytes: usize) = newer;
}

unsafe fn find(name: *const c_char, to: *mut usize, version: i32, flags: u64) -> u32 {
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
) -> u32 {
    if name.is_null() || to.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: not null, and cuGetProcAddress demands a name that ends with a zero.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    if name.is_empty() {
        return INVALID_VALUE;
    }
    let found =
        symbol(&name, version, flags).and_then(|symbol| address(&symbol).ok_or(SYMBOL_NOT_FOUND));
    let mut world = world();
    match found {
        Ok(_) => world.found += 1,
        Err(_) => world.not_found += 1,
    }
    // SAFETY: not null, and cuGetProcAddress demands that `to` may be written.
    unsafe { give(to, found.unwrap_or(0)) };
    // SAFETY: cuGetProcAddress demands that `status` is null or may be written; null is left out.
    unsafe { give(status, found.err().unwrap_or(0)) };
    if found.is_err() && status.is_null() { NOT_FOUND } else { SUCCESS }
}

/// The symbol, or a status.
fn symbol(name: &str, version: i32, flags: u64) -> Result<String, u32> {
    if version >= NEWER && std::env::var("REEF_FAKE_NEWER").is_ok_and(|newer| newer == name) {
        return Ok("reef_fake_newer".into());
    }
    let symbol = reef_cuda_abi::symbol(name, version).ok_or(VERSION_NOT_SUFFICIENT)?.to_owned();
    let ptsz_variants = PTSZ_SUFFIXES.map(|ptsz| format!("{symbol}{ptsz}"));
    let ptsz = ptsz_variants.into_iter().find(|ptsz| address(ptsz).is_some());
    Ok(ptsz.filter(|_| flags & 2 != 0).unwrap_or(symbol))
}

/// A function of this library. A library that was loaded before may have functions of the same
/// names.
fn address(symbol: &str) -> Option<usize> {
    let symbol = CString::new(symbol).ok()?;
    // SAFETY: asks about this function, for the time of the call.
    let found = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(address as *const c_void, &mut info);
        let own = libc::dlopen(info.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD);
        let found = libc::dlsym(own, symbol.as_ptr());
        libc::dlclose(own);
        found
    };
    (!found.is_null()).then_some(found as usize)
}

unsafe fn newer(to: *mut usize, bytes: usize) -> u32 {
    // SAFETY: the function plays a newer variant of cuMemAlloc, which demands that `to` may be
    // written. `alloc` refuses null.
    unsafe { super::memory::alloc(to, bytes) }
}

unsafe fn export_table(table: *mut *const c_void, _uuid: *const [u8; 16]) -> u32 {
    // SAFETY: cuGetExportTable demands that `table` may be written; null is left out.
    unsafe { give(table, std::ptr::null()) };
    NOT_FOUND
}

unsafe fn lookups(found: *mut u64, not_found: *mut u64) -> u32 {
    let world = world();
    // SAFETY: tests pass the address of a local here; null is left out.
    unsafe { give(found, world.found) };
    // SAFETY: tests pass the address of a local here; null is left out.
    unsafe { give(not_found, world.not_found) };
    SUCCESS
}

unsafe fn waits(waits: *mut u64) -> u32 {
    // SAFETY: tests pass the address of a local here; null is left out.
    unsafe { give(waits, world().waits) };
    SUCCESS
}
