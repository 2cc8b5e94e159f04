//! Look-ups of functions: a function that has a hook is replaced by it.

use super::declare::{hooks, ptsz_variants};
use super::list::{HOOKS, JUMPS};
use crate::catch_panics::catch_panics;
use crate::driver::calls;
use crate::driver::lookup::{families, is_unknown_variant, replace};
use crate::driver::state::Inside;
use crate::driver::withheld::is_withheld;
use crate::explain;
use crate::limit::refusal::say;
use crate::profile::timed::timed;
use crate::settings::{is_limited, is_scheduled, settings};
use reef_cuda_abi::codes::{NOT_FOUND, SYMBOL_NOT_FOUND};
use reef_guest::profile::Api;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

ptsz_variants! {
    cuGetProcAddress / cuGetProcAddress_ptsz(
        name: *const c_char, to: *mut usize, version: i32, flags: u64,
    ) |_is_ptsz, real| timed(Api::LookUp, 0, 0, 0, || look_up(name, to, ptr::null_mut(), real));
    cuGetProcAddress_v2 / cuGetProcAddress_v2_ptsz(
        name: *const c_char, to: *mut usize, version: i32, flags: u64, status: *mut u32,
    ) |_is_ptsz, real| timed(Api::LookUp, 0, 0, 0, || look_up(name, to, status, real));
}

// Calls through the tables are not seen; requests for the tables are counted.
hooks! {
    cuGetExportTable(table: *mut *const c_void, uuid: *const c_void) |real| {
        explain::TABLES.fetch_add(1, Relaxed);
        real()
    };
}

fn look_up(
    name: *const c_char,
    to: *mut usize,
    status: *mut u32,
    real: impl FnOnce() -> u32,
) -> u32 {
    // SAFETY: not null here, and the driver demands a symbol's name that ends with a zero.
    if !name.is_null() && !to.is_null() && is_withheld(unsafe { CStr::from_ptr(name) }) {
        // SAFETY: where the driver would write; the status may be null.
        return unsafe { withhold(to, status) };
    }
    let code = real();
    let Some(_inside) = Inside::looking_up() else { return code };
    explain::LOOKUPS.fetch_add(1, Relaxed);
    if code == 0 && !name.is_null() && !to.is_null() {
        // SAFETY: where the real driver has just written, from a name that it has just read.
        let (known, at) = unsafe { (CStr::from_ptr(name), &mut *to) };
        if !answer(known, at) {
            // SAFETY: the driver has just written to `to`. The driver demands that `status` is null
            // or may be written.
            return unsafe { withhold(to, status) };
        }
    } else if code == NOT_FOUND {
        explain::MISSING.fetch_add(1, Relaxed);
    }
    code
}

/// Answers as a driver that doesn't have the function.
///
/// # Safety
///
/// Both may be written to; the status may be null.
unsafe fn withhold(to: *mut usize, status: *mut u32) -> u32 {
    explain::MISSING.fetch_add(1, Relaxed);
    // SAFETY: `# Safety` demands that `to` may be written, and that `status` is null or may be.
    unsafe {
        *to = 0;
        match status.as_mut() {
            Some(status) => *status = SYMBOL_NOT_FOUND,
            None => return NOT_FOUND,
        }
    }
    0
}

/// Replaces a function by its hook. Returns false for one that may not be given away: it would pass
/// by a limit or a hold.
fn answer(name: &CStr, to: &mut usize) -> bool {
    let found = *to;
    if found == 0 {
        explain::MISSING.fetch_add(1, Relaxed);
    }
    *to = replace(found, &HOOKS);
    if *to == found && settings().is_swappable {
        *to = replace(found, &JUMPS); // so that each call can be made to wait
    }
    if *to != found {
        explain::HOOKED.fetch_add(1, Relaxed);
        return true;
    }
    let is_unknown = is_unknown_variant(name, found, &HOOKS, &JUMPS);
    if is_unknown {
        say_unknown(name);
    }
    !is_unknown || !(is_limited() || is_scheduled())
}

/// Says which function has a variant that isn't known, and what becomes of it.
fn say_unknown(name: &CStr) {
    let name = name.to_string_lossy();
    let why = format!("{name}: the driver has a variant of it that this library does not know");
    if is_limited() || is_scheduled() {
        say(&format!("{why}: it is not found, because it would pass by limits and holds"));
    } else {
        explain::refuse::<()>(&why);
    }
}

/// Writes the names of functions with hooks of which the driver has a variant for a version of CUDA
/// that isn't known: as many as fit, each ended by a zero, and another zero. Returns their number.
///
/// # Safety
///
/// `bytes` bytes may be written to `to`, at least one.
#[unsafe(no_mangle)]
unsafe extern "C" fn reef_unknown_variants(version: i32, to: *mut c_char, bytes: usize) -> usize {
    // SAFETY: `# Safety` demands `bytes` bytes at `to` that may be written, and nothing else uses
    // them during the call.
    let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), bytes) };
    let unknown = catch_panics(|| Some(unknown_variants(version))).unwrap_or_default();
    let mut at = 0;
    for name in &unknown {
        let name = name.as_bytes_with_nul();
        if at + name.len() < to.len() {
            to[at..at + name.len()].copy_from_slice(name);
            at += name.len();
        }
    }
    to.iter_mut().skip(at).take(1).for_each(|end| *end = 0);
    unknown.len()
}

/// Asks the driver for each name with hooks, for both kinds of default streams.
fn unknown_variants(version: i32) -> Vec<CString> {
    let _inside = Inside::always();
    let names = families(&HOOKS).into_iter().filter_map(|name| CString::new(name).ok());
    let is_unknown = |name: &CString| {
        [0, 2].into_iter().any(|flags| {
            let (mut found, mut status) = (0, 0);
            let code = calls::proc_address(name.as_ptr(), &mut found, version, flags, &mut status);
            code == Some(0) && is_unknown_variant(name, found, &HOOKS, &JUMPS)
        })
    };
    names.filter(is_unknown).collect()
}
