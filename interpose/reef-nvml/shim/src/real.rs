//! Real library: `$REEF_NVML_LIBRARY`, or the first one of this name that isn't this library.

use reef_guest::library_path::{self, candidates};
use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Returns the address of a function of the real library. `None`: the library or the function is
/// missing.
pub(crate) fn symbol(name: &CStr) -> Option<usize> {
    static HANDLE: OnceLock<Option<usize>> = OnceLock::new();
    let all = || candidates("libnvidia-ml.so.1", reef_guest::variable("REEF_NVML_LIBRARY"));
    let own = symbol as *const () as usize;
    let open = |path: &PathBuf| library_path::open(path, c"nvmlInit_v2", own);
    let handle = (*HANDLE.get_or_init(|| all().iter().find_map(open)))?;
    // SAFETY: a handle of `dlopen` that is never closed, and a string.
    let found = unsafe { libc::dlsym(handle as *mut c_void, name.as_ptr()) };
    (!found.is_null()).then_some(found as usize)
}

/// Returns whether there is a real library.
pub(crate) fn is_there() -> bool {
    symbol(c"nvmlInit_v2").is_some()
}
