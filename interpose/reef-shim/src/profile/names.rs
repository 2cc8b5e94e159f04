//! Names of kernels by the driver's handles, noted when they are looked up.

use crate::driver::state::is_profiled;
use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::{LazyLock, Mutex, MutexGuard};

static NAMES: LazyLock<Mutex<HashMap<u64, String>>> = LazyLock::new(Mutex::default);

fn names() -> MutexGuard<'static, HashMap<u64, String>> {
    NAMES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Looks a kernel up by `call`, which writes its handle.
pub(crate) fn note_name(to: *const usize, name: *const c_char, call: impl FnOnce() -> u32) -> u32 {
    let code = call();
    if code == 0 && is_profiled() && !to.is_null() && !name.is_null() {
        // SAFETY: where the driver has just written, from a name that it has just read.
        let (handle, name) = unsafe { (*to, CStr::from_ptr(name)) };
        names().insert(handle as u64, name.to_string_lossy().into_owned());
    }
    code
}

/// Gets another handle of a kernel by `call`, and gives it the same name.
pub(crate) fn copy_name(to: *const usize, of: usize, call: impl FnOnce() -> u32) -> u32 {
    let code = call();
    // SAFETY: null, or where the driver has just written.
    if let (0, true, Some(to)) = (code, is_profiled(), unsafe { to.as_ref() }) {
        let known = names().get(&(of as u64)).cloned();
        known.into_iter().for_each(|name| drop(names().insert(*to as u64, name)));
    }
    code
}

pub(super) fn all() -> HashMap<u64, String> {
    names().clone()
}
