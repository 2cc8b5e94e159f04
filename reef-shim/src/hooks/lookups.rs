//! Look-ups of functions: a function that has a hook is replaced by it.

use super::declare::{hooks, twins};
use super::list::HOOKS;
use crate::driver::lookup::{is_missed, replace};
use crate::driver::state::Inside;
use crate::explain;
use crate::profile::timed::timed;
use reef_guest::profile::Api;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::Ordering::Relaxed;

/// `CUDA_ERROR_NOT_FOUND`.
const NOT_FOUND: u32 = 500;

twins! {
    cuGetProcAddress / cuGetProcAddress_ptsz(
        name: *const c_char, to: *mut usize, version: i32, flags: u64,
    ) |_is_twin, real| timed(Api::LookUp, 0, 0, 0, || look_up(name, to, real));
    cuGetProcAddress_v2 / cuGetProcAddress_v2_ptsz(
        name: *const c_char, to: *mut usize, version: i32, flags: u64, status: *mut u32,
    ) |_is_twin, real| timed(Api::LookUp, 0, 0, 0, || look_up(name, to, real));
}

// Calls through the tables are not seen; requests for the tables are counted.
hooks! {
    cuGetExportTable(table: *mut *const c_void, uuid: *const c_void) |real| {
        explain::TABLES.fetch_add(1, Relaxed);
        real()
    };
}

fn look_up(name: *const c_char, to: *mut usize, real: impl FnOnce() -> u32) -> u32 {
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

fn answer(name: &CStr, to: &mut usize) {
    let found = *to;
    if found == 0 {
        explain::MISSING.fetch_add(1, Relaxed);
    }
    *to = replace(found, &HOOKS);
    if *to != found {
        explain::HOOKED.fetch_add(1, Relaxed);
    } else if is_missed(name.to_bytes(), found, &HOOKS) {
        explain::refuse::<()>(&format!("{}: a variant that isn't known", name.to_string_lossy()));
    }
}
