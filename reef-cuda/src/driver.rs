//! The few calls of the CUDA driver API that tell what is there.

use libloading::Library;
use reef_core::{Error, Result};
use std::ffi::{CStr, c_char, c_int};

/// Where the driver library may be.
const LIBRARIES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`.
const MULTIPROCESSORS: c_int = 16;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`, `_MINOR`.
const CAPABILITY: [c_int; 2] = [75, 76];

/// The opened driver library. Codes are plain integers: newer drivers have codes that we don't know.
pub(crate) struct Driver {
    get_count: unsafe extern "C" fn(*mut c_int) -> u32,
    get_name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> u32,
    get_attribute: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> u32,
    /// Keeps the functions above mapped.
    _library: Library,
}

impl Driver {
    pub(crate) fn open() -> Result<Self> {
        // SAFETY: the driver library's initialisers are meant to be run by whoever opens it.
        let library = LIBRARIES.iter().find_map(|name| unsafe { Library::new(*name).ok() });
        let library = library.ok_or_else(|| {
            Error::NotFound(format!("no CUDA driver (tried {})", LIBRARIES.join(", ")))
        })?;
        // SAFETY: the four signatures are those of cuda.h, unchanged since CUDA 2.
        unsafe {
            let init: unsafe extern "C" fn(u32) -> u32 = symbol(&library, "cuInit")?;
            check("cuInit", init(0))?;
            Ok(Self {
                get_count: symbol(&library, "cuDeviceGetCount")?,
                get_name: symbol(&library, "cuDeviceGetName")?,
                get_attribute: symbol(&library, "cuDeviceGetAttribute")?,
                _library: library,
            })
        }
    }

    pub(crate) fn count(&self) -> Result<c_int> {
        let mut count = 0;
        // SAFETY: the pointer is valid for the call.
        check("cuDeviceGetCount", unsafe { (self.get_count)(&mut count) })?;
        Ok(count)
    }

    pub(crate) fn describe(&self, device: c_int) -> Result<String> {
        let mut name: [c_char; 128] = [0; 128];
        // SAFETY: the buffer is as long as we say, and the driver ends the name with a NUL.
        let name = unsafe {
            check("cuDeviceGetName", (self.get_name)(name.as_mut_ptr(), 127, device))?;
            CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
        };
        let [major, minor] = CAPABILITY.map(|attribute| self.attribute(attribute, device));
        let units = self.attribute(MULTIPROCESSORS, device)?;
        Ok(format!("{name}, sm_{}{}, {units} multiprocessors", major?, minor?))
    }

    fn attribute(&self, attribute: c_int, device: c_int) -> Result<c_int> {
        let mut value = 0;
        // SAFETY: the pointer is valid for the call.
        let code = unsafe { (self.get_attribute)(&mut value, attribute, device) };
        check("cuDeviceGetAttribute", code)?;
        Ok(value)
    }
}

/// # Safety
///
/// `T` is the function's type.
unsafe fn symbol<T: Copy>(library: &Library, name: &'static str) -> Result<T> {
    // SAFETY: the caller's promise.
    unsafe { library.get::<T>(name.as_bytes()) }
        .map(|symbol| *symbol)
        .map_err(|_| Error::NotFound(format!("the CUDA driver has no {name}")))
}

fn check(call: &'static str, code: u32) -> Result<()> {
    match code {
        0 => Ok(()),
        _ => Err(Error::Driver { backend: "cuda", call, name: name(code).into(), code }),
    }
}

/// Names of the codes that these calls return, from cuda.h.
fn name(code: u32) -> &'static str {
    match code {
        1 => "CUDA_ERROR_INVALID_VALUE",
        3 => "CUDA_ERROR_NOT_INITIALIZED",
        34 => "CUDA_ERROR_STUB_LIBRARY",
        35 => "CUDA_ERROR_INSUFFICIENT_DRIVER",
        100 => "CUDA_ERROR_NO_DEVICE",
        101 => "CUDA_ERROR_INVALID_DEVICE",
        _ => "CUDA_ERROR",
    }
}
