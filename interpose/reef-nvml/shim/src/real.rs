//! Real library: `$REEF_NVML_LIBRARY`, or the first one of this name that isn't this library.

use reef_guest::library_path::candidates;
use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

/// Returns the address of a function of the real library. `None`: the library or the function is
/// missing.
pub(crate) fn symbol(name: &CStr) -> Option<usize> {
    static HANDLE: OnceLock<Option<usize>> = OnceLock::new();
    let all = || candidates("libnvidia-ml.so.1", std::env::var_os("REEF_NVML_LIBRARY"));
    let handle = (*HANDLE.get_or_init(|| all().iter().find_map(|path| open(path))))?;
    // SAFETY: a handle of `dlopen` that is never closed, and a string.
    let found = unsafe { libc::dlsym(handle as *mut c_void, name.as_ptr()) };
    (!found.is_null()).then_some(found as usize)
}

/// Returns whether there is a real library.
pub(crate) fn is_there() -> bool {
    symbol(c"nvmlInit_v2").is_some()
}

/// Opens a library by its path, if it is NVIDIA's and not this one. With `DEEPBIND` its calls of
/// its own functions don't reach this library.
fn open(path: &Path) -> Option<usize> {
    let name = CString::new(path.canonicalize().ok()?.as_os_str().as_bytes()).ok()?;
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND;
    // SAFETY: the library's initialisers are what every tool runs.
    let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: a handle, and a string.
    let init = unsafe { libc::dlsym(handle, c"nvmlInit_v2".as_ptr()) };
    (!init.is_null() && base(init) != base(open as *const c_void)).then_some(handle as usize)
}

/// Returns the base address of the library that holds this address.
fn base(address: *const c_void) -> usize {
    // SAFETY: all zero is a value of this struct, which the call fills in.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(address, &mut info);
        info.dli_fbase as usize
    }
}
