//! The driver API as a table of functions, opened at run time.
//!
//! Types are cudarc's, calls are ours: a function that is missing is an error or a `None` where
//! cudarc would panic, and codes stay plain integers, because newer drivers have some that no enum
//! knows. Each function is a field, which gives the raw code, and a method of the same name, which
//! checks it.

#![allow(non_snake_case)] // names of vendors' calls are theirs

use cudarc::driver::sys::*;
use libloading::Library;
use reef_core::{Error, Result};
use reef_gpu::{driver_error, driver_table, symbols};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::fmt;
use std::sync::OnceLock;

/// The name users type.
pub(crate) const BACKEND: &str = "cuda";

/// Names of the driver library, unless `$REEF_CUDA` names it.
const LIBRARIES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

driver_table! {
    /// The functions that we call. `Option`: newer than the oldest driver that we support.
    library: "CUDA driver", a "driver" from "CUDA 11.7" on;
    needed {
        cuInit(flags: c_uint);
        cuDriverGetVersion(version: *mut c_int);
        cuGetErrorName(code: u32, name: *mut *const c_char);
        cuDeviceGetCount(count: *mut c_int);
        cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
        cuDeviceGetName(name: *mut c_char, length: c_int, device: CUdevice);
        cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice);
        cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
        cuDevicePrimaryCtxRelease_v2(device: CUdevice);
        cuCtxSetCurrent(context: CUcontext);
        cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
        cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
        cuModuleUnload(module: CUmodule);
        cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
        cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: CUfunction);
        cuFuncSetAttribute(function: CUfunction, attribute: c_uint, value: c_int);
        cuLaunchKernel(
            function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
            block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream,
            params: *mut *mut c_void, extra: *mut *mut c_void
        );
        cuMemAlloc_v2(memory: *mut CUdeviceptr, bytes: usize);
        cuMemFree_v2(memory: CUdeviceptr);
        cuMemHostAlloc(memory: *mut *mut c_void, bytes: usize, flags: c_uint);
        cuMemFreeHost(memory: *mut c_void);
        cuMemHostRegister_v2(memory: *mut c_void, bytes: usize, flags: c_uint);
        cuMemHostUnregister(memory: *mut c_void);
        cuMemHostGetDevicePointer_v2(device: *mut CUdeviceptr, host: *mut c_void, flags: c_uint);
        cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
        cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
        cuMemsetD8Async(to: CUdeviceptr, value: u8, bytes: usize, stream: CUstream);
        cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int);
        cuStreamDestroy_v2(stream: CUstream);
        cuStreamSynchronize(stream: CUstream);
        cuStreamQuery(stream: CUstream);
        cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
        cuEventCreate(event: *mut CUevent, flags: c_uint);
        cuEventRecord(event: CUevent, stream: CUstream);
        cuEventDestroy_v2(event: CUevent);
        cuStreamBeginCapture_v2(stream: CUstream, mode: c_uint);
        cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph);
        cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
        cuGraphLaunch(exec: CUgraphExec, stream: CUstream);
        cuGraphUpload(exec: CUgraphExec, stream: CUstream);
        cuGraphExecDestroy(exec: CUgraphExec);
        cuGraphDestroy(graph: CUgraph);
    }
    optional {
        cuLaunchKernelEx(
            config: *const CUlaunchConfig, function: CUfunction, params: *mut *mut c_void, extra: *mut *mut c_void
        );
        cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
        cuDeviceGetUuid(uuid: *mut [u8; 16], device: CUdevice);
        cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: CUdevice);
        cuMemAllocAsync(memory: *mut CUdeviceptr, bytes: usize, stream: CUstream);
        cuMemFreeAsync(memory: CUdeviceptr, stream: CUstream);
        cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
        cuIpcOpenMemHandle_v2(memory: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint);
        cuIpcCloseMemHandle(memory: CUdeviceptr);
        cuMemGetAddressRange_v2(begin: *mut CUdeviceptr, bytes: *mut usize, memory: CUdeviceptr);
        cuPointerGetAttribute(value: *mut c_void, attribute: c_uint, memory: CUdeviceptr);
        cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice);
        cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void);
        cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize);
        cuStreamWriteValue32_v2(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint);
        cuStreamWaitValue32_v2(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint);
        cuFuncGetParamInfo(function: CUfunction, index: usize, offset: *mut usize, size: *mut usize);
        cuDeviceGetDevResource(device: CUdevice, resource: *mut CUdevResource, kind: c_uint);
        cuDevSmResourceSplitByCount(
            parts: *mut CUdevResource, count: *mut c_uint, from: *const CUdevResource,
            rest: *mut CUdevResource, flags: c_uint, least: c_uint
        );
        cuDevResourceGenerateDesc(
            description: *mut CUdevResourceDesc, resources: *mut CUdevResource, count: c_uint
        );
        cuGreenCtxDestroy(context: CUgreenCtx);
        cuGreenCtxCreate(context: *mut CUgreenCtx, description: CUdevResourceDesc, device: CUdevice, flags: c_uint);
        cuGreenCtxStreamCreate(stream: *mut CUstream, context: CUgreenCtx, flags: c_uint, priority: c_int);
    }
    other {}
}

impl Driver {
    /// The driver of this machine, opened and initialised once in a process.
    ///
    /// # Errors
    ///
    /// `NotFound` says what was tried; `cuInit`'s error if there is a library but no device.
    pub(crate) fn get() -> Result<&'static Self> {
        static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();
        DRIVER.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self> {
        let named = std::env::var("REEF_CUDA").ok().filter(|path| !path.is_empty());
        let tried: Vec<&str> = named.as_deref().map_or(LIBRARIES.into(), |path| vec![path]);
        // SAFETY: the driver library's initialisers are meant to be run when it is opened.
        let library = tried.iter().find_map(|name| unsafe { Library::new(*name).ok() });
        let Some(library) = library else {
            return Err(Error::NotFound(format!("no CUDA driver (tried {})", tried.join(", "))));
        };
        // SAFETY: this is the driver library, and it stays mapped.
        let driver = unsafe { Self::resolve(symbols(library)) }?;
        // SAFETY: no other call is made before.
        unsafe { driver.cuInit(0) }?;
        Ok(driver)
    }

    /// The version of the driver API, such as 13000 for 13.0.
    pub(crate) fn version(&self) -> Result<c_int> {
        let mut version = 0;
        // SAFETY: the pointer is valid for the call.
        unsafe { self.cuDriverGetVersion(&mut version) }?;
        Ok(version)
    }

    pub(crate) fn check(&self, call: &'static str, code: u32) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.error(call, code)) }
    }

    #[cold]
    fn error(&self, call: &'static str, code: u32) -> Error {
        driver_error(BACKEND, &LOST, call, code, self.name(code))
    }

    fn name(&self, code: u32) -> String {
        let mut name = std::ptr::null();
        // SAFETY: the pointer is valid for the call; the driver gives a static string or an error.
        unsafe {
            match (self.cuGetErrorName)(code, &mut name) {
                0 if !name.is_null() => CStr::from_ptr(name).to_string_lossy().into_owned(),
                _ => "unknown".into(),
            }
        }
    }
}

/// `CUDA_ERROR_NOT_READY`: the answer of queries, not an error.
pub(crate) const NOT_READY: u32 = 600;
/// Codes after which nothing works in the context: uncorrectable memory errors, faults of kernels,
/// also those that the device contains (226) and of tensor memory (721), and the end of an MPS
/// client (810).
const LOST: [u32; 16] =
    [46, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810];

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}
