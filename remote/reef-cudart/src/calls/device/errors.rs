//! Errors: a thread's last one, names and texts.

use crate::driver::found;
use crate::thread::{last_error, take_last_error};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char};
use std::sync::OnceLock;

/// Code and name of each error, from the headers of CUDA 12.9 and 13.
const NAMES: &str = include_str!("../../../errors.txt");
const UNKNOWN: &CStr = c"unrecognized error code";

/// Texts of the runtime's own errors, which the driver does not know.
const OWN: [(u32, &CStr); 8] = [
    (9, c"invalid configuration argument"),
    (12, c"invalid pitch argument"),
    (13, c"invalid device symbol"),
    (21, c"invalid copy direction for memcpy"),
    (35, c"CUDA driver version is insufficient for CUDA runtime version"),
    (36, c"API call is not supported in the installed CUDA driver"),
    (52, c"__global__ function call is not configured"),
    (98, c"invalid device function"),
];

#[allow(non_snake_case)]
#[unsafe(export_name = "reef_cudaGetLastError")]
extern "C" fn cudaGetLastError() -> u32 {
    take_last_error()
}

#[allow(non_snake_case)]
#[unsafe(export_name = "reef_cudaPeekAtLastError")]
extern "C" fn cudaPeekAtLastError() -> u32 {
    last_error()
}

fn names() -> &'static HashMap<u32, CString> {
    static ALL: OnceLock<HashMap<u32, CString>> = OnceLock::new();
    let read = |line: &str| {
        let (code, name) = line.split_once(' ')?;
        Some((code.parse().ok()?, CString::new(name).ok()?))
    };
    ALL.get_or_init(|| NAMES.lines().filter_map(read).collect())
}

#[allow(non_snake_case)]
#[unsafe(export_name = "reef_cudaGetErrorName")]
extern "C" fn cudaGetErrorName(code: u32) -> *const c_char {
    names().get(&code).map_or(UNKNOWN, CString::as_c_str).as_ptr()
}

/// The driver's text, or the name where there is none.
#[allow(non_snake_case)]
#[unsafe(export_name = "reef_cudaGetErrorString")]
extern "C" fn cudaGetErrorString(code: u32) -> *const c_char {
    if let Some((_, text)) = OWN.iter().find(|(of, _)| *of == code) {
        return text.as_ptr();
    }
    let mut text = std::ptr::null();
    // SAFETY: a place for an address; the text lives as long as the driver does.
    let told = found().and_then(|driver| unsafe { driver.cuGetErrorString(code, &raw mut text) });
    if told.is_ok() && !text.is_null() { text } else { cudaGetErrorName(code) }
}
