//! The driver's functions, found in `libcuda.so.1` at the program's first use of the device.

use crate::codes::{INSUFFICIENT_DRIVER, NEWER_DRIVER, SUCCESS};
use crate::thread::in_thread;
use crate::types::{Location, Stream};
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),*);)+) => {
        /// Functions of a driver. `None`: it does not have this one.
        #[derive(Debug)]
        #[allow(non_snake_case)] // the driver's names
        pub(crate) struct Driver {
            $($name: Option<unsafe extern "C" fn($($type),*) -> u32>,)+
        }

        #[allow(non_snake_case, clippy::too_many_arguments)] // the driver's
        impl Driver {
            /// # Safety
            ///
            /// `library` is a driver's.
            unsafe fn of(library: *mut c_void) -> Self {
                Self {
                    $($name: {
                        let name = concat!(stringify!($name), "\0").as_bytes();
                        let name = CStr::from_bytes_with_nul(name).expect("it ends with a zero");
                        type Function = unsafe extern "C" fn($($type),*) -> u32;
                        // SAFETY: an open library; a function of this name has this type.
                        unsafe {
                            let found = libc::dlsym(library, name.as_ptr());
                            std::mem::transmute::<*mut c_void, Option<Function>>(found)
                        }
                    },)+
                }
            }

            $(
                /// # Safety
                ///
                /// Arguments that are addresses are what the driver's function wants.
                pub(crate) unsafe fn $name(&self, $($arg: $type),*) -> Result<(), u32> {
                    let function = self.$name.ok_or(NEWER_DRIVER)?;
                    // SAFETY: `function` is the driver's function of this name, which has this type
                    // in cuda.h. `# Safety` demands that addresses among the arguments are what it
                    // requires.
                    match unsafe { function($($arg),*) } {
                        SUCCESS => Ok(()),
                        code => Err(code),
                    }
                }
            )+
        }
    };
}

functions! {
    cuInit(flags: u32);
    cuDriverGetVersion(version: *mut i32);
    cuGetProcAddress_v2(name: *const c_char, to: *mut usize, version: i32, flags: u64, status: *mut u32);
    cuGetErrorString(code: u32, text: *mut *const c_char);
    cuProfilerStart();
    cuProfilerStop();

    cuDeviceGetCount(count: *mut i32);
    cuDeviceGetName(name: *mut c_char, len: i32, device: i32);
    cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: i32);
    cuDeviceTotalMem_v2(bytes: *mut usize, device: i32);
    cuDeviceGetAttribute(value: *mut i32, attribute: u32, device: i32);
    cuDeviceGetPCIBusId(name: *mut c_char, len: i32, device: i32);
    cuDeviceGetByPCIBusId(device: *mut i32, name: *const c_char);
    cuDeviceCanAccessPeer(can: *mut i32, device: i32, peer: i32);
    cuDeviceGetP2PAttribute(value: *mut i32, attribute: u32, from: i32, to: i32);
    cuDevicePrimaryCtxRetain(context: *mut usize, device: i32);
    cuDevicePrimaryCtxReset_v2(device: i32);
    cuDevicePrimaryCtxGetState(device: i32, flags: *mut u32, is_active: *mut i32);
    cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32);
    cuDeviceGetDefaultMemPool(pool: *mut usize, device: i32);
    cuDeviceGetMemPool(pool: *mut usize, device: i32);
    cuDeviceSetMemPool(device: i32, pool: usize);
    cuDeviceGetGraphMemAttribute(device: i32, attribute: u32, value: *mut c_void);
    cuDeviceSetGraphMemAttribute(device: i32, attribute: u32, value: *mut c_void);
    cuDeviceGraphMemTrim(device: i32);

    cuCtxGetCurrent(context: *mut usize);
    cuCtxSetCurrent(context: usize);
    cuCtxGetDevice(device: *mut i32);
    cuCtxSynchronize();
    cuCtxGetLimit(value: *mut usize, limit: u32);
    cuCtxSetLimit(limit: u32, value: usize);
    cuCtxGetCacheConfig(config: *mut u32);
    cuCtxSetCacheConfig(config: u32);
    cuCtxGetSharedMemConfig(config: *mut u32);
    cuCtxSetSharedMemConfig(config: u32);
    cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32);
    cuCtxResetPersistingL2Cache();
    cuCtxEnablePeerAccess(peer: usize, flags: u32);
    cuCtxDisablePeerAccess(peer: usize);
    cuThreadExchangeStreamCaptureMode(mode: *mut u32);

    cuLibraryLoadData(
        library: *mut usize, image: usize, names: *const u32, values: *const usize, count: u32, own: *const u32,
        own_values: *const usize, own_count: u32
    );
    cuLibraryLoadFromFile(
        library: *mut usize, path: *const c_char, names: *const u32, values: *const usize, count: u32,
        own: *const u32, own_values: *const usize, own_count: u32
    );
    cuLibraryUnload(library: usize);
    cuLibraryGetKernel(kernel: *mut usize, library: usize, name: *const c_char);
    cuLibraryGetGlobal(at: *mut u64, bytes: *mut usize, library: usize, name: *const c_char);
    cuLibraryGetKernelCount(count: *mut u32, library: usize);
    cuKernelGetFunction(function: *mut usize, kernel: usize);
    cuKernelGetAttribute(value: *mut i32, attribute: u32, kernel: usize, device: i32);
    cuKernelSetAttribute(attribute: u32, value: i32, kernel: usize, device: i32);
    cuKernelSetCacheConfig(kernel: usize, config: u32, device: i32);
    cuKernelGetParamInfo(kernel: usize, index: usize, offset: *mut usize, bytes: *mut usize);

    cuLaunchKernel(
        kernel: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: Stream, params: *const *const c_void, extra: *const usize
    );
    cuLaunchCooperativeKernel(
        kernel: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: Stream, params: *const *const c_void
    );
    cuLaunchKernelEx(config: *const c_void, kernel: usize, params: *const *const c_void, extra: *const usize);
    cuLaunchHostFunc(stream: Stream, function: usize, data: usize);
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut i32, kernel: usize, threads: i32, shared: usize, flags: u32
    );
    cuOccupancyAvailableDynamicSMemPerBlock(bytes: *mut usize, kernel: usize, blocks: i32, threads: i32);
    cuOccupancyMaxActiveClusters(clusters: *mut i32, kernel: usize, config: *const c_void);
    cuOccupancyMaxPotentialClusterSize(size: *mut i32, kernel: usize, config: *const c_void);

    cuMemAlloc_v2(at: *mut u64, bytes: usize);
    cuMemAllocPitch_v2(at: *mut u64, pitch: *mut usize, width: usize, height: usize, element: u32);
    cuMemAllocManaged(at: *mut u64, bytes: usize, flags: u32);
    cuMemFree_v2(at: u64);
    cuMemAllocAsync(at: *mut u64, bytes: usize, stream: Stream);
    cuMemAllocFromPoolAsync(at: *mut u64, bytes: usize, pool: usize, stream: Stream);
    cuMemFreeAsync(at: u64, stream: Stream);
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemHostAlloc(at: *mut usize, bytes: usize, flags: u32);
    cuMemFreeHost(at: usize);
    cuMemHostRegister_v2(at: usize, bytes: usize, flags: u32);
    cuMemHostUnregister(at: usize);
    cuMemHostGetDevicePointer_v2(to: *mut u64, at: usize, flags: u32);
    cuMemHostGetFlags(flags: *mut u32, at: usize);
    cuPointerGetAttribute(value: *mut c_void, attribute: u32, at: u64);
    cuMemPrefetchAsync(at: u64, bytes: usize, device: i32, stream: Stream);
    cuMemPrefetchAsync_v2(at: u64, bytes: usize, to: Location, flags: u32, stream: Stream);
    cuMemAdvise(at: u64, bytes: usize, advice: u32, device: i32);
    cuMemAdvise_v2(at: u64, bytes: usize, advice: u32, to: Location);
    cuMemPoolCreate(pool: *mut usize, props: *const c_void);
    cuMemPoolDestroy(pool: usize);
    cuMemPoolTrimTo(pool: usize, keep: usize);
    cuMemPoolGetAttribute(pool: usize, attribute: u32, value: *mut c_void);
    cuMemPoolSetAttribute(pool: usize, attribute: u32, value: *mut c_void);
    cuMemPoolSetAccess(pool: usize, list: *const c_void, count: usize);
    cuMemPoolGetAccess(flags: *mut u32, pool: usize, place: *mut c_void);

    cuMemcpyHtoD_v2(to: u64, from: usize, bytes: usize);
    cuMemcpyDtoH_v2(to: usize, from: u64, bytes: usize);
    cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize);
    cuMemcpyHtoDAsync_v2(to: u64, from: usize, bytes: usize, stream: Stream);
    cuMemcpyDtoHAsync_v2(to: usize, from: u64, bytes: usize, stream: Stream);
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Stream);
    cuMemcpyPeerAsync(to: u64, to_context: usize, from: u64, from_context: usize, bytes: usize, stream: Stream);
    cuMemcpy2DAsync_v2(rows: *const c_void, stream: Stream);
    cuMemcpy3DAsync_v2(slices: *const c_void, stream: Stream);
    cuMemsetD8Async(at: u64, value: u8, bytes: usize, stream: Stream);
    cuMemsetD2D8Async(at: u64, pitch: usize, value: u8, width: usize, height: usize, stream: Stream);
    cuArray3DCreate_v2(array: *mut usize, of: *const c_void);
    cuArray3DGetDescriptor_v2(of: *mut c_void, array: usize);
    cuArrayDestroy(array: usize);

    cuStreamCreate(stream: *mut usize, flags: u32);
    cuStreamCreateWithPriority(stream: *mut usize, flags: u32, priority: i32);
    cuStreamDestroy_v2(stream: usize);
    cuStreamSynchronize(stream: Stream);
    cuStreamQuery(stream: Stream);
    cuStreamWaitEvent(stream: Stream, event: usize, flags: u32);
    cuStreamGetFlags(stream: Stream, flags: *mut u32);
    cuStreamGetPriority(stream: Stream, priority: *mut i32);
    cuStreamGetId(stream: Stream, id: *mut u64);
    cuStreamGetDevice(stream: Stream, device: *mut i32);
    cuStreamGetAttribute(stream: Stream, attribute: u32, value: *mut c_void);
    cuStreamSetAttribute(stream: Stream, attribute: u32, value: *const c_void);
    cuStreamCopyAttributes(to: Stream, from: Stream);
    cuStreamAttachMemAsync(stream: Stream, at: u64, bytes: usize, flags: u32);
    cuStreamIsCapturing(stream: Stream, status: *mut u32);
    cuStreamGetCaptureInfo(stream: Stream, status: *mut u32, id: *mut u64);
    cuStreamGetCaptureInfo_v2(
        stream: Stream, status: *mut u32, id: *mut u64, graph: *mut usize, after: *mut *const usize, count: *mut usize
    );
    cuStreamGetCaptureInfo_v3(
        stream: Stream, status: *mut u32, id: *mut u64, graph: *mut usize, after: *mut *const usize,
        edges: *mut *const c_void, count: *mut usize
    );
    cuStreamBeginCapture_v2(stream: Stream, mode: u32);
    cuStreamBeginCaptureToGraph(
        stream: Stream, graph: usize, after: *const usize, edges: *const c_void, count: usize, mode: u32
    );
    cuStreamEndCapture(stream: Stream, graph: *mut usize);
    cuStreamUpdateCaptureDependencies(stream: Stream, after: *mut usize, count: usize, flags: u32);

    cuEventCreate(event: *mut usize, flags: u32);
    cuEventDestroy_v2(event: usize);
    cuEventRecord(event: usize, stream: Stream);
    cuEventRecordWithFlags(event: usize, stream: Stream, flags: u32);
    cuEventQuery(event: usize);
    cuEventSynchronize(event: usize);
    cuEventElapsedTime(millis: *mut f32, from: usize, to: usize);

    cuGraphCreate(graph: *mut usize, flags: u32);
    cuGraphDestroy(graph: usize);
    cuGraphClone(clone: *mut usize, graph: usize);
    cuGraphGetNodes(graph: usize, nodes: *mut usize, count: *mut usize);
    cuGraphGetRootNodes(graph: usize, nodes: *mut usize, count: *mut usize);
    cuGraphGetEdges(graph: usize, from: *mut usize, to: *mut usize, count: *mut usize);
    cuGraphGetEdges_v2(graph: usize, from: *mut usize, to: *mut usize, edges: *mut c_void, count: *mut usize);
    cuGraphNodeGetType(node: usize, kind: *mut u32);
    cuGraphNodeFindInClone(node: *mut usize, of: usize, clone: usize);
    cuGraphDestroyNode(node: usize);
    cuGraphAddDependencies(graph: usize, from: *const usize, to: *const usize, count: usize);
    cuGraphAddDependencies_v2(
        graph: usize, from: *const usize, to: *const usize, edges: *const c_void, count: usize
    );
    cuGraphRemoveDependencies(graph: usize, from: *const usize, to: *const usize, count: usize);
    cuGraphRemoveDependencies_v2(
        graph: usize, from: *const usize, to: *const usize, edges: *const c_void, count: usize
    );
    cuGraphInstantiateWithFlags(exec: *mut usize, graph: usize, flags: u64);
    cuGraphInstantiateWithParams(exec: *mut usize, graph: usize, params: *mut c_void);
    cuGraphExecDestroy(exec: usize);
    cuGraphExecGetFlags(exec: usize, flags: *mut u64);
    cuGraphExecUpdate_v2(exec: usize, graph: usize, info: *mut c_void);
    cuGraphLaunch(exec: usize, stream: Stream);
    cuGraphUpload(exec: usize, stream: Stream);
    cuGraphDebugDotPrint(graph: usize, path: *const c_char, flags: u32);
    cuGraphAddEmptyNode(node: *mut usize, graph: usize, after: *const usize, count: usize);
    cuGraphAddChildGraphNode(node: *mut usize, graph: usize, after: *const usize, count: usize, child: usize);
    cuGraphChildGraphNodeGetGraph(node: usize, child: *mut usize);
    cuGraphExecChildGraphNodeSetParams(exec: usize, node: usize, child: usize);
    cuGraphAddKernelNode_v2(
        node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const c_void
    );
    cuGraphKernelNodeGetParams_v2(node: usize, params: *mut c_void);
    cuGraphKernelNodeSetParams_v2(node: usize, params: *const c_void);
    cuGraphExecKernelNodeSetParams_v2(exec: usize, node: usize, params: *const c_void);
    cuGraphKernelNodeGetAttribute(node: usize, attribute: u32, value: *mut c_void);
    cuGraphKernelNodeSetAttribute(node: usize, attribute: u32, value: *const c_void);
    cuGraphAddMemcpyNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const c_void, context: usize
    );
    cuGraphMemcpyNodeSetParams(node: usize, params: *const c_void);
    cuGraphExecMemcpyNodeSetParams(exec: usize, node: usize, params: *const c_void, context: usize);
    cuGraphAddMemsetNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const c_void, context: usize
    );
    cuGraphMemsetNodeSetParams(node: usize, params: *const c_void);
    cuGraphExecMemsetNodeSetParams(exec: usize, node: usize, params: *const c_void, context: usize);
    cuGraphAddHostNode(node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const c_void);
    cuGraphHostNodeGetParams(node: usize, params: *mut c_void);
    cuGraphHostNodeSetParams(node: usize, params: *const c_void);
    cuGraphExecHostNodeSetParams(exec: usize, node: usize, params: *const c_void);
    cuGraphAddEventRecordNode(node: *mut usize, graph: usize, after: *const usize, count: usize, event: usize);
    cuGraphAddEventWaitNode(node: *mut usize, graph: usize, after: *const usize, count: usize, event: usize);
    cuGraphAddMemAllocNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, params: *mut c_void
    );
    cuGraphAddMemFreeNode(node: *mut usize, graph: usize, after: *const usize, count: usize, at: u64);
    cuUserObjectCreate(object: *mut usize, data: usize, destroy: usize, count: u32, flags: u32);
    cuUserObjectRetain(object: usize, count: u32);
    cuUserObjectRelease(object: usize, count: u32);
    cuGraphRetainUserObject(graph: usize, object: usize, count: u32, flags: u32);
    cuGraphReleaseUserObject(graph: usize, object: usize, count: u32);
}

/// The driver, or the code that its start ended with.
static DRIVER: OnceLock<Result<(Driver, Option<u32>), u32>> = OnceLock::new();

/// Returns the driver's functions, without starting it.
///
/// # Errors
///
/// `INSUFFICIENT_DRIVER`: there is no library.
pub(crate) fn found() -> Result<&'static Driver, u32> {
    opened().map(|(driver, _)| driver)
}

/// Returns the driver, which has been started.
///
/// # Errors
///
/// `INSUFFICIENT_DRIVER`: there is no library; the driver's code, the same one each time;
/// `CUDART_UNLOADING` in a thread that has nearly ended.
pub(crate) fn driver() -> Result<&'static Driver, u32> {
    in_thread(|_| ())?;
    match opened()? {
        (driver, None) => Ok(driver),
        (_, Some(code)) => Err(*code),
    }
}

fn opened() -> Result<&'static (Driver, Option<u32>), u32> {
    DRIVER.get_or_init(open).as_ref().map_err(|code| *code)
}

/// The library stays open: threads of the driver's run in it.
fn open() -> Result<(Driver, Option<u32>), u32> {
    // SAFETY: the driver's initialisers are what every CUDA program runs.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        return Err(INSUFFICIENT_DRIVER);
    }
    // SAFETY: a driver's library.
    let driver = unsafe { Driver::of(library) };
    // SAFETY: a number.
    let started = unsafe { driver.cuInit(0) };
    Ok((driver, started.err()))
}
