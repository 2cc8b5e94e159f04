//! Functions that are answered with a limit: the real library's answer, with no more than the limit
//! in it.

use crate::limit::{Device, of};
use crate::slots::{self, NO_FUNCTION, NO_LIBRARY, address};
use std::ffi::{CStr, c_char};

/// `NVML_VALUE_NOT_AVAILABLE`.
const NOT_AVAILABLE: u64 = u64::MAX;

/// `nvmlMemory_t`.
#[repr(C)]
#[derive(Debug)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
#[derive(Debug)]
struct Memory2 {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// `nvmlProcessInfo_v1_t`, and `nvmlProcessInfo_v2_t` of both later functions.
type Info1 = [u64; 2];
type Info2 = [u64; 3];

/// Limits total, free and used memory to the job's view.
fn limited(device: Device, [total, free, used]: [&mut u64; 3]) {
    let Some(limit) = of(device) else { return };
    *total = limit.limit.min(*total);
    *used = limit.used.min(*total);
    *free = (*total - *used).min(*free);
}

/// Calls the real function.
///
/// # Safety
///
/// The function in this slot has these arguments in `nvml.h`.
unsafe fn real<T>(slot: usize, device: Device, to: *mut T) -> u32 {
    // SAFETY: the real library's function of these arguments, or one that looks at none.
    unsafe {
        let call = std::mem::transmute::<usize, unsafe extern "C" fn(Device, *mut T) -> u32>(
            address(slot),
        );
        call(device, to)
    }
}

#[allow(non_snake_case)]
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo(device: Device, to: *mut Memory) -> u32 {
    // SAFETY: nvml.h gives this function these arguments and demands that `to` is null or a
    // `nvmlMemory_t` that may be written. `device` is passed on unread.
    let (code, memory) = unsafe { (real(slots::nvmlDeviceGetMemoryInfo, device, to), to.as_mut()) };
    if let (0, Some(Memory { total, free, used })) = (code, memory) {
        limited(device, [total, free, used]);
    }
    code
}

#[allow(non_snake_case)]
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Device, to: *mut Memory2) -> u32 {
    // SAFETY: nvml.h gives this function these arguments and demands that `to` is null or a
    // `nvmlMemory_v2_t` that may be written. `device` is passed on unread.
    let (code, memory) =
        unsafe { (real(slots::nvmlDeviceGetMemoryInfo_v2, device, to), to.as_mut()) };
    if let (0, Some(memory)) = (code, memory) {
        limited(device, [&mut memory.total, &mut memory.free, &mut memory.used]);
        memory.reserved = memory.reserved.min(memory.total - memory.used);
    }
    code
}

/// Lists processes with no more memory than the limit: memory of another job beyond it isn't shown
/// to the program.
///
/// # Safety
///
/// The arguments are what `nvml.h` says of the function in this slot, whose list has elements of
/// `N` words, the second of which is memory.
unsafe fn processes<const N: usize>(
    slot: usize,
    device: Device,
    count: *mut u32,
    to: *mut [u64; N],
) -> u32 {
    // SAFETY: the slot has the real library's function, or one of ours that reads no argument. This
    // function's `# Safety` demands the arguments that nvml.h has for it.
    let code = unsafe {
        let call = std::mem::transmute::<
            usize,
            unsafe extern "C" fn(Device, *mut u32, *mut [u64; N]) -> u32,
        >(address(slot));
        call(device, count, to)
    };
    if code != 0 || count.is_null() || to.is_null() {
        return code;
    }
    // SAFETY: the library has written `count` elements.
    let all = unsafe { std::slice::from_raw_parts_mut(to, *count as usize) };
    if let Some(limit) = of(device) {
        let known =
            all.iter_mut().map(|info| &mut info[1]).filter(|bytes| **bytes != NOT_AVAILABLE);
        known.for_each(|bytes| *bytes = limit.limit.min(*bytes));
    }
    code
}

/// Exports the three versions.
macro_rules! lists {
    ($($name:ident($info:ty);)+) => {
        $(
            #[allow(non_snake_case)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(device: Device, count: *mut u32, to: *mut $info) -> u32 {
                // SAFETY: nvml.h demands of the program a count and a list of that many elements,
                // or none. The type is that of the function in this slot.
                unsafe { processes(slots::$name, device, count, to) }
            }
        )+
    };
}

lists! {
    nvmlDeviceGetComputeRunningProcesses(Info1);
    nvmlDeviceGetComputeRunningProcesses_v2(Info2);
    nvmlDeviceGetComputeRunningProcesses_v3(Info2);
}

/// Returns the meaning of a code where there is no real library.
fn meaning(code: u32) -> &'static CStr {
    match code {
        0 => c"no error",
        NO_LIBRARY => c"libnvidia-ml.so.1 not found",
        NO_FUNCTION => c"libnvidia-ml.so.1 has no such function",
        _ => c"error of libnvidia-ml.so.1",
    }
}

/// The only function of the library that returns an address: a caller would read from a code.
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(code: u32) -> *const c_char {
    let Some(at) = slots::real(slots::nvmlErrorString) else { return meaning(code).as_ptr() };
    // SAFETY: the real library's function of this name, which takes any number.
    unsafe {
        let call = std::mem::transmute::<usize, unsafe extern "C" fn(u32) -> *const c_char>(at);
        call(code)
    }
}
