//! The HIP runtime API as a table of functions, opened at run time.
//!
//! Types and numbers are those of hip_runtime_api.h that are the same from HIP 5.2 to 7; codes stay
//! plain integers, because newer runtimes have some that no enum knows. Each function is a field,
//! which gives the raw code, and a method of the same name, which checks it.

#![allow(non_snake_case)] // names of vendors' calls are theirs

use libloading::Library;
use reef_core::{Error, Result};
use reef_gpu::{driver_error, driver_table, symbols};
use std::ffi::{CStr, OsString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

/// The name users type.
pub(crate) const BACKEND: &str = "hip";

/// Names of the runtime library, newest first.
const LIBRARIES: [&str; 4] =
    ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];

/// `hipStream_t`, `hipModule_t`, `hipFunction_t`, `hipGraph_t` and so on: all are opaque.
pub(crate) type Handle = *mut c_void;

driver_table! {
    /// The functions that we call. `Option`: not in every runtime that we support.
    library: "HIP runtime", a "runtime" from "HIP 5.2" on;
    needed {
        hipInit(flags: c_uint);
        hipRuntimeGetVersion(version: *mut c_int);
        hipGetDeviceCount(count: *mut c_int);
        hipSetDevice(device: c_int);
        hipDeviceGetName(name: *mut c_char, length: c_int, device: c_int);
        hipDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int);
        hipGetDeviceProperties(properties: *mut c_void, device: c_int);
        hipDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
        hipModuleLoadData(module: *mut Handle, image: *const c_void);
        hipModuleUnload(module: Handle);
        hipModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char);
        hipFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: Handle);
        hipModuleLaunchKernel(
            function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
            block_y: c_uint, block_z: c_uint, shared: c_uint, stream: Handle,
            params: *mut *mut c_void, extra: *mut *mut c_void
        );
        hipMalloc(memory: *mut *mut c_void, bytes: usize);
        hipFree(memory: *mut c_void);
        hipHostMalloc(memory: *mut *mut c_void, bytes: usize, flags: c_uint);
        hipHostFree(memory: *mut c_void);
        hipHostGetDevicePointer(device: *mut *mut c_void, host: *mut c_void, flags: c_uint);
        hipExtMallocWithFlags(memory: *mut *mut c_void, bytes: usize, flags: c_uint);
        hipMemcpyHtoDAsync(to: *mut c_void, from: *const c_void, bytes: usize, stream: Handle);
        hipMemcpyDtoHAsync(to: *mut c_void, from: *mut c_void, bytes: usize, stream: Handle);
        hipMemsetAsync(to: *mut c_void, value: c_int, bytes: usize, stream: Handle);
        hipStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int);
        hipStreamDestroy(stream: Handle);
        hipStreamSynchronize(stream: Handle);
        hipStreamQuery(stream: Handle);
        hipStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint);
        hipEventCreateWithFlags(event: *mut Handle, flags: c_uint);
        hipEventRecord(event: Handle, stream: Handle);
        hipEventDestroy(event: Handle);
        hipStreamWriteValue32(stream: Handle, address: *mut c_void, value: u32, flags: c_uint);
        hipStreamWaitValue32(stream: Handle, address: *mut c_void, value: u32, flags: c_uint, mask: u32);
    }
    optional {
        hipDeviceTotalMem(bytes: *mut usize, device: c_int);
        hipDeviceGetUuid(uuid: *mut [u8; 16], device: c_int);
        hipGetDevicePropertiesR0600(properties: *mut c_void, device: c_int);
        hipExtStreamCreateWithCUMask(stream: *mut Handle, words: u32, mask: *const u32);
        hipStreamBeginCapture(stream: Handle, mode: c_uint);
        hipStreamEndCapture(stream: Handle, graph: *mut Handle);
        hipGraphInstantiate(
            exec: *mut Handle, graph: Handle, node: *mut Handle, log: *mut c_char, bytes: usize
        );
        hipGraphLaunch(exec: Handle, stream: Handle);
        hipGraphExecDestroy(exec: Handle);
        hipGraphDestroy(graph: Handle);
    }
    other {
        hipGetErrorName(u32) -> *const c_char;
    }
}

impl Driver {
    /// The runtime of this machine, opened and initialised once in a process.
    ///
    /// # Errors
    ///
    /// `NotFound` says what was tried, or that there is a runtime and no device.
    pub(crate) fn get() -> Result<&'static Self> {
        static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();
        DRIVER.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self> {
        // SAFETY: this is the runtime library, and it stays mapped.
        let driver = unsafe { Self::resolve(symbols(library()?)) }?;
        driver.init()?;
        Ok(driver)
    }

    /// Without a device, HIP 5.2 says one thing and later ones another.
    pub(crate) fn init(&self) -> Result<()> {
        // SAFETY: no other call is made before.
        match unsafe { (self.hipInit)(0) } {
            code @ (NO_DEVICE | INVALID_DEVICE) => {
                let name = self.name(code);
                let text = format!("a HIP runtime, but no device: hipInit: {name} (code {code})");
                Err(Error::NotFound(text))
            }
            code => self.check("hipInit", code),
        }
    }

    /// The version of the runtime, as 5, 2 for 5.2.21153.
    pub(crate) fn version(&self) -> Result<Version> {
        let mut version = 0;
        // SAFETY: the pointer is valid for the call.
        unsafe { self.hipRuntimeGetVersion(&mut version) }?;
        Ok(Version::from(version))
    }

    pub(crate) fn check(&self, call: &'static str, code: u32) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.error(call, code)) }
    }

    #[cold]
    fn error(&self, call: &'static str, code: u32) -> Error {
        driver_error(BACKEND, &LOST, call, code, self.name(code))
    }

    pub(crate) fn name(&self, code: u32) -> String {
        // SAFETY: the runtime answers any number with a static text.
        unsafe {
            match (self.hipGetErrorName)(code) {
                name if name.is_null() => "unknown".into(),
                name => CStr::from_ptr(name).to_string_lossy().into_owned(),
            }
        }
    }
}

/// `hipErrorNoDevice`
pub(crate) const NO_DEVICE: u32 = 100;
/// `hipErrorInvalidDevice`
pub(crate) const INVALID_DEVICE: u32 = 101;
/// `hipErrorNotReady`: the answer of queries, not an error.
pub(crate) const NOT_READY: u32 = 600;
/// Codes after which nothing works on the device: uncorrectable memory errors, faults of kernels.
/// Most faults end the process before a code is read: that is what AMD's runtime does about them.
pub(crate) const LOST: [u32; 6] = [214, 700, 702, 709, 710, 719];

/// Version of the runtime and of its parts; ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    patch: u32,
}

impl From<c_int> for Version {
    fn from(number: c_int) -> Self {
        let n = number.unsigned_abs();
        Self { major: n / 10_000_000, minor: n / 100_000 % 100, patch: n % 100_000 }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}

/// Opens the runtime. A path that was asked for is the only one tried, so that a wrong one shows.
pub(crate) fn library() -> Result<Library> {
    let tried = match std::env::var_os("REEF_HIP").filter(|path| !path.is_empty()) {
        Some(path) => vec![path],
        None => in_rocm(&LIBRARIES),
    };
    // SAFETY: the runtime's initialisers are meant to be run when it is opened.
    let library = tried.iter().find_map(|name| unsafe { Library::new(name).ok() });
    library.ok_or_else(|| {
        let tried: Vec<_> = tried.iter().map(|name| name.to_string_lossy()).collect();
        Error::NotFound(format!("no HIP runtime (tried $REEF_HIP, {})", tried.join(", ")))
    })
}

/// The plain names, then those in `$ROCM_PATH/lib` and `/opt/rocm/lib`.
pub(crate) fn in_rocm(names: &[&str]) -> Vec<OsString> {
    let folders = [std::env::var_os("ROCM_PATH"), Some("/opt/rocm".into())];
    let mut all: Vec<OsString> = names.iter().map(Into::into).collect();
    for folder in folders.into_iter().flatten() {
        let lib = Path::new(&folder).join("lib");
        all.extend(names.iter().map(|name| lib.join(name).into_os_string()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_all_runtimes_are_read_and_ordered() {
        let rows = [(50221153, "5.2.21153"), (50731921, "5.7.31921"), (60443484, "6.4.43484")];
        for (number, text) in rows {
            assert_eq!(Version::from(number).to_string(), text);
        }
        assert!(Version::from(50731921) < Version::from(60443484));
    }
}
