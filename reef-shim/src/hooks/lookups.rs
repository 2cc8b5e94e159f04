//! Look-ups of functions: a function that has a hook is replaced by it.

use super::declare::{hooks, twins};
use super::list::{HOOKS, JUMPS};
use crate::driver::lookup::{is_missed, replace};
use crate::driver::slots::NOT_FOUND;
use crate::driver::state::Inside;
use crate::driver::withheld::is_withheld;
use crate::explain;
use crate::profile::timed::timed;
use crate::settings::settings;
use reef_guest::profile::Api;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

/// `CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`.
const NO_SYMBOL: u32 = 1;

twins! {
    cuGetProcAddress / cuGetProcAddress_ptsz(
        name: *const c_char, to: *mut usize, version: i32, flags: u64,
    ) |_is_twin, real| timed(Api::LookUp, 0, 0, 0, || look_up(name, to, ptr::null_mut(), real));
    cuGetProcAddress_v2 / cuGetProcAddress_v2_ptsz(
        name: *const c_char, to: *mut usize, version: i32, flags: u64, status: *mut u32,
    ) |_is_twin, real| timed(Api::LookUp, 0, 0, 0, || look_up(name, to, status, real));
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
    // SAFETY: null, or a string, the program's promise to the driver.
    if !name.is_null() && !to.is_null() && is_withheld(unsafe { CStr::from_ptr(name) }) {
        // SAFETY: where the driver would write; the status may be null.
        return unsafe { withhold(to, status) };
    }
    let code = real();
    let Some(_inside) = Inside::looking_up() else { return code };
    explain::LOOKUPS.fetch_add(1, Relaxed);
    if code == 0 && !name.is_null() && !to.is_null() {
        // SAFETY: where the real driver has just written, from a name that it has just read.
        let (name, to) = unsafe { (CStr::from_ptr(name), &mut *to) };
        answer(name, to);
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
    // SAFETY: the caller's promise.
    unsafe {
        *to = 0;
        match status.as_mut() {
            Some(status) => *status = NO_SYMBOL,
            None => return NOT_FOUND,
        }
    }
    0
}

fn answer(name: &CStr, to: &mut usize) {
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
    } else if is_missed(name.to_bytes(), found, &HOOKS) {
        explain::refuse::<()>(&format!("{}: a variant that isn't known", name.to_string_lossy()));
    }
}
