//! Calls of the real driver that are our own. Each returns `None` if the driver doesn't have the
//! function.
//!
//! Calls that read graphs and change our own ones are in `graph_gates::calls`.

use crate::driver::names;
use crate::driver::slots::real;
use reef_cuda_abi::codes::CAPTURE_IMPLICIT;
use std::ffi::{c_char, c_void};

/// Handle of a stream, with separate numbers for default streams: 1 is the legacy one, 2 the
/// thread's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream(pub(crate) usize);

impl Stream {
    /// Returns the stream of a handle, as passed to a function or to its variant for
    /// per-thread default streams.
    pub(crate) fn new(handle: usize, is_ptsz: bool) -> Self {
        match (handle, is_ptsz) {
            (0, false) => Self(1),
            (0, true) => Self(2),
            (handle, _) => Self(handle),
        }
    }

    /// Returns whether it is the thread's own: no other thread can name it.
    pub(crate) fn is_own(self) -> bool {
        self.0 == 2
    }

    /// Returns whether its handle names it in every context.
    pub(crate) fn is_default(self) -> bool {
        self.0 <= 2
    }
}

/// Defines functions that call the driver's. Those behind `unsafe:` use or end what an address or a
/// handle names, so that a wrong one does harm. The others read or choose something by a handle,
/// which the driver checks, and write to references alone.
macro_rules! calls {
    (unsafe: $($(#[$doc:meta])* $name:ident = $symbol:ident($($arg:ident: $type:ty),*);)+) => {
        $(
            $(#[$doc])*
            #[allow(clippy::too_many_arguments)] // the driver's
            pub(crate) unsafe fn $name($($arg: $type),*) -> Option<u32> {
                let at = real(names::$symbol)?;
                // SAFETY: the driver's function of this name has these arguments. Addresses and
                // handles among them are what cuda.h demands, for which the caller of an `unsafe`
                // wrapper is responsible.
                Some(unsafe {
                    let call = std::mem::transmute::<usize, unsafe extern "C" fn($($type),*) -> u32>(at);
                    call($($arg),*)
                })
            }
        )+
    };
    ($($(#[$doc:meta])* $name:ident = $symbol:ident($($arg:ident: $type:ty),*);)+) => {
        $(
            $(#[$doc])*
            pub(crate) fn $name($($arg: $type),*) -> Option<u32> {
                let at = real(names::$symbol)?;
                // SAFETY: the driver's function of this name has these arguments. All that is
                // passed is a handle that the program or the driver made, or a reference.
                Some(unsafe {
                    let call = std::mem::transmute::<usize, unsafe extern "C" fn($($type),*) -> u32>(at);
                    call($($arg),*)
                })
            }
        )+
    };
}

pub(crate) use calls;

calls! {
    context_current = cuCtxGetCurrent(context: &mut usize);
    set_context = cuCtxSetCurrent(context: usize);
    context_device = cuCtxGetDevice(device: &mut i32);
    /// Gets a number that no other context of the process has. Since CUDA 12.
    context_id = cuCtxGetId(context: usize, id: &mut u64);
    context_of_green = cuCtxFromGreenCtx(context: &mut usize, green: usize);
    retain_primary = cuDevicePrimaryCtxRetain(context: &mut usize, device: i32);
    release_primary = cuDevicePrimaryCtxRelease_v2(device: i32);
    /// Gets a number that no other stream of the process has. Since CUDA 12.
    stream_id = cuStreamGetId(stream: usize, id: &mut u64);
    stream_contexts = cuStreamGetCtx_v2(stream: usize, context: &mut usize, green: &mut usize);
    proc_address = cuGetProcAddress_v2(name: *const c_char, to: &mut usize, version: i32, flags: u64, status: &mut u32);
    device_uuid = cuDeviceGetUuid(uuid: &mut [u8; 16], device: i32);
    /// Gets the UUID of the MIG instance, where there is one.
    device_uuid_v2 = cuDeviceGetUuid_v2(uuid: &mut [u8; 16], device: i32);
    device_attribute = cuDeviceGetAttribute(value: &mut i32, attribute: u32, device: i32);
    device_pointer = cuMemHostGetDevicePointer_v2(to: &mut u64, at: *mut c_void, flags: u32);
    capture_info = cuStreamGetCaptureInfo(stream: usize, status: &mut u32, id: &mut u64);
    exchange_mode = cuThreadExchangeStreamCaptureMode(mode: &mut u32);
    pointer_attribute = cuPointerGetAttribute(value: &mut u32, attribute: u32, at: usize);
    address_range = cuMemGetAddressRange_v2(base: &mut usize, bytes: &mut usize, at: usize);
    create_event = cuEventCreate(event: &mut usize, flags: u32);
    record_event = cuEventRecord(event: usize, stream: usize);
    query_event = cuEventQuery(event: usize);
    destroy_event = cuEventDestroy_v2(event: usize);
    primary_state = cuDevicePrimaryCtxGetState(device: i32, flags: &mut u32, is_active: &mut i32);
    current_pool = cuDeviceGetMemPool(pool: &mut usize, device: i32);
    pool_attribute = cuMemPoolGetAttribute(pool: usize, attribute: u32, value: &mut u64);
    set_pool_attribute = cuMemPoolSetAttribute(pool: usize, attribute: u32, value: &u64);
    trim_pool = cuMemPoolTrimTo(pool: usize, keep: usize);
    trim_graphs = cuDeviceGraphMemTrim(device: i32);
    context_of_stream = cuStreamGetCtx(stream: usize, context: &mut usize);
    memory_info = cuMemGetInfo_v2(free: &mut usize, total: &mut usize);
    context_limit = cuCtxGetLimit(value: &mut usize, limit: u32);
    loading_mode = cuModuleGetLoadingMode(mode: &mut u32);
    allocation_properties = cuMemGetAllocationPropertiesFromHandle(properties: &mut [u64; 8], handle: u64);
    graph_memory = cuDeviceGetGraphMemAttribute(device: i32, attribute: u32, value: &mut u64);
}

calls! {
    unsafe:
    /// # Safety
    ///
    /// The memory stays mapped until the context ends.
    host_register = cuMemHostRegister_v2(at: *mut c_void, bytes: usize, flags: u32);
    /// # Safety
    ///
    /// The word is registered in the stream's context until the wait has ended.
    wait_value = cuStreamWaitValue32_v2(stream: usize, at: u64, value: u32, flags: u32);
    /// # Safety
    ///
    /// The word is registered in the stream's context until it is written, and is the library's.
    write_value = cuStreamWriteValue32_v2(stream: usize, at: u64, value: u32, flags: u32);
    /// # Safety
    ///
    /// The allocation is not in use, and is freed by nothing else.
    free = cuMemFree_v2(at: usize);
    /// # Safety
    ///
    /// The allocation is not in use, and is freed by nothing else.
    free_in = cuMemFreeAsync(at: usize, stream: usize);
    /// # Safety
    ///
    /// The address may be written to, or is null.
    alloc_from = cuMemAllocFromPoolAsync(at: *mut usize, bytes: usize, pool: usize, stream: usize);
    /// # Safety
    ///
    /// The context and its memory are not in use.
    destroy_context = cuCtxDestroy_v2(context: usize);
}

/// Returns the current context; zero if there is none.
pub(crate) fn context() -> usize {
    let mut context = 0;
    match context_current(&mut context) {
        Some(0) => context,
        _ => 0,
    }
}

/// Returns the context of a stream: the current one for a default stream.
pub(crate) fn stream_context(stream: Stream) -> usize {
    let mut found = 0;
    if !stream.is_default() && context_of_stream(stream.0, &mut found) == Some(0) {
        found
    } else {
        context()
    }
}

/// Returns the device of the current context.
pub(crate) fn device() -> Option<i32> {
    let mut ordinal = 0;
    (context_device(&mut ordinal) == Some(0)).then_some(ordinal)
}

/// Runs our own calls in another context.
pub(crate) fn in_context<T>(other: usize, calls: impl FnOnce() -> T) -> T {
    let own = context();
    if other == own {
        return calls();
    }
    let _ = set_context(other);
    let result = calls();
    let _ = set_context(own);
    result
}

/// Returns whether a stream is being captured, or a call that uses it would break a capture. That
/// is so for the legacy stream while one that it waits for is captured: the driver says only that
/// it can't say.
pub(crate) fn is_capturing(stream: Stream) -> bool {
    let (mut status, mut id) = (0, 0);
    match capture_info(stream.0, &mut status, &mut id) {
        Some(0) => status != 0,
        Some(code) => code == CAPTURE_IMPLICIT,
        None => false,
    }
}

/// Returns the number of the capture that a stream is part of, as far as the driver says so. No
/// other capture has it.
pub(crate) fn capture_number(stream: Stream) -> Option<u64> {
    let (mut status, mut id) = (0, 0);
    let is_known = capture_info(stream.0, &mut status, &mut id) == Some(0);
    (is_known && status != 0).then_some(id)
}

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `…_MINOR`.
const MAJOR: u32 = 75;
const MINOR: u32 = 76;

/// Returns a device's compute capability, such as 90.
pub(crate) fn capability(ordinal: i32) -> Option<u32> {
    let digit = |attribute| {
        let mut digit = 0;
        let code = device_attribute(&mut digit, attribute, ordinal);
        u32::try_from(digit).ok().filter(|_| code == Some(0))
    };
    Some(10 * digit(MAJOR)? + digit(MINOR)?)
}

/// Returns the UUID of a device, or of its MIG instance.
pub(crate) fn uuid(ordinal: i32) -> Option<[u8; 16]> {
    let mut uuid = [0; 16];
    let is_known =
        device_uuid_v2(&mut uuid, ordinal) == Some(0) || device_uuid(&mut uuid, ordinal) == Some(0);
    is_known.then_some(uuid)
}

/// Runs our own calls so that they don't break a capture of the program.
pub(crate) fn with_relaxed_capture<T>(calls: impl FnOnce() -> T) -> T {
    let mut mode = 2; // CU_STREAM_CAPTURE_MODE_RELAXED
    let _ = exchange_mode(&mut mode);
    let result = calls();
    let _ = exchange_mode(&mut mode);
    result
}
