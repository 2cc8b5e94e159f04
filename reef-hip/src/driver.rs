//! The few calls of the HIP runtime API that tell what is there.

use libloading::Library;
use reef_core::{Error, Result};
use std::ffi::{CStr, OsString, c_char, c_int};

/// Names of the runtime library, newest first.
const LIBRARIES: [&str; 4] =
    ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];
/// `hipDeviceAttributeMultiprocessorCount`, the same number from HIP 5.2 to 7.
const COMPUTE_UNITS: c_int = 63;

/// The opened runtime library. Codes are plain integers: newer runtimes have codes that we don't
/// know.
pub(crate) struct Driver {
    get_count: unsafe extern "C" fn(*mut c_int) -> u32,
    get_name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> u32,
    get_attribute: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> u32,
    /// Keeps the functions above mapped.
    _library: Library,
}

/// The plain names, then those in `$ROCM_PATH/lib` and `/opt/rocm/lib`.
fn candidates() -> Vec<OsString> {
    let folders = [std::env::var_os("ROCM_PATH"), Some("/opt/rocm".into())];
    let mut all: Vec<OsString> = LIBRARIES.iter().map(Into::into).collect();
    for folder in folders.into_iter().flatten() {
        let lib = std::path::Path::new(&folder).join("lib");
        all.extend(LIBRARIES.iter().map(|name| lib.join(name).into_os_string()));
    }
    all
}

impl Driver {
    pub(crate) fn open() -> Result<Self> {
        // SAFETY: the runtime's initialisers are meant to be run by whoever opens it.
        let library = candidates().iter().find_map(|name| unsafe { Library::new(name).ok() });
        let library = library.ok_or_else(|| {
            let tried = LIBRARIES.join(", ");
            Error::NotFound(format!(
                "no HIP runtime (tried {tried}, $ROCM_PATH/lib, /opt/rocm/lib)"
            ))
        })?;
        // SAFETY: the signatures are those of hip_runtime_api.h, unchanged since HIP 5.
        unsafe {
            Ok(Self {
                get_count: symbol(&library, "hipGetDeviceCount")?,
                get_name: symbol(&library, "hipDeviceGetName")?,
                get_attribute: symbol(&library, "hipDeviceGetAttribute")?,
                _library: library,
            })
        }
    }

    pub(crate) fn count(&self) -> Result<c_int> {
        let mut count = 0;
        // SAFETY: the pointer is valid for the call.
        check("hipGetDeviceCount", unsafe { (self.get_count)(&mut count) })?;
        Ok(count)
    }

    pub(crate) fn describe(&self, device: c_int) -> Result<String> {
        let mut name: [c_char; 128] = [0; 128];
        // SAFETY: the buffer is as long as we say, and the runtime ends the name with a NUL.
        let name = unsafe {
            check("hipDeviceGetName", (self.get_name)(name.as_mut_ptr(), 127, device))?;
            CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
        };
        let mut units = 0;
        // SAFETY: the pointer is valid for the call.
        let code = unsafe { (self.get_attribute)(&mut units, COMPUTE_UNITS, device) };
        check("hipDeviceGetAttribute", code)?;
        Ok(format!("{name}, {units} compute units"))
    }
}

/// # Safety
///
/// `T` is the function's type.
unsafe fn symbol<T: Copy>(library: &Library, name: &'static str) -> Result<T> {
    // SAFETY: the caller's promise.
    unsafe { library.get::<T>(name.as_bytes()) }
        .map(|symbol| *symbol)
        .map_err(|_| Error::NotFound(format!("the HIP runtime has no {name}")))
}

fn check(call: &'static str, code: u32) -> Result<()> {
    match code {
        0 => Ok(()),
        _ => Err(Error::Driver { backend: "hip", call, name: name(code).into(), code }),
    }
}

/// Names of the codes that these calls return, from hip_runtime_api.h.
fn name(code: u32) -> &'static str {
    match code {
        1 => "hipErrorInvalidValue",
        3 => "hipErrorNotInitialized",
        35 => "hipErrorInsufficientDriver",
        100 => "hipErrorNoDevice",
        101 => "hipErrorInvalidDevice",
        _ => "hipError",
    }
}
