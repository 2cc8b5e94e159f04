//! Functions that are answered with a limit: the real library's answer, with no more than the limit
//! in it.

use crate::limit::{Device, Limit, of};
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

/// `nvmlDeviceAttributes_t`: numbers of parts, and memory in MiB.
#[repr(C)]
#[derive(Debug)]
struct Attributes {
    parts: [u32; 8],
    memory: u64,
}

/// `nvmlConfComputeMemSizeInfo_t`: protected and other memory in KiB.
type Protected = [u64; 2];

/// `nvmlProcessInfo_v1_t`, and `nvmlProcessInfo_v2_t` of both later functions: a process, and its
/// memory.
type Info1 = [u64; 2];
type Info2 = [u64; 3];

/// `nvmlProcessDetailList_v1_t`. Its elements begin with a process and its memory, too.
#[repr(C)]
#[derive(Debug)]
struct Details {
    version: u32,
    mode: u32,
    count: u32,
    to: *mut [u64; 4],
}

/// `nvmlProcessUtilizationSample_t`: a process, a time, and per cent.
type Sample = [u64; 4];

/// `nvmlProcessesUtilizationInfo_v1_t`, whose elements are a time, a process, and per cent.
#[repr(C)]
#[derive(Debug)]
struct Samples {
    version: u32,
    count: u32,
    since: u64,
    to: *mut [u64; 5],
}

/// Limits total, free and used memory to the job's view.
fn limited(limit: &Limit, [total, free, used]: [&mut u64; 3]) {
    *total = limit.limit.min(*total);
    *used = limit.used.min(*total);
    *free = (*total - *used).min(*free);
}

/// Calls the real function. Where there is a limit, its answer is changed.
///
/// # Safety
///
/// The function in this slot has these arguments in `nvml.h`, and `to` is null or may be written.
unsafe fn answer<T>(
    slot: usize,
    device: Device,
    to: *mut T,
    change: impl FnOnce(&mut T, &Limit),
) -> u32 {
    // SAFETY: the real library's function of these arguments, or one that looks at none. `# Safety`
    // demands that `to` is null or may be written.
    let (code, answer) = unsafe {
        let call = std::mem::transmute::<usize, unsafe extern "C" fn(Device, *mut T) -> u32>(
            address(slot),
        );
        (call(device, to), to.as_mut())
    };
    if let (0, Some(answer)) = (code, answer)
        && let Some(limit) = of(device)
    {
        change(answer, &limit);
    }
    code
}

/// Exports functions that answer with one struct.
macro_rules! answers {
    ($($name:ident($answer:ty) |$to:ident, $limit:ident| $change:expr;)+) => {
        $(
            #[allow(non_snake_case)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(device: Device, to: *mut $answer) -> u32 {
                let change = |$to: &mut $answer, $limit: &Limit| $change;
                // SAFETY: nvml.h gives this function these arguments and demands that `to` is null
                // or a struct of this type that may be written. `device` is passed on unread.
                unsafe { answer(slots::$name, device, to, change) }
            }
        )+
    };
}

answers! {
    nvmlDeviceGetMemoryInfo(Memory) |of, limit| {
        limited(limit, [&mut of.total, &mut of.free, &mut of.used]);
    };
    nvmlDeviceGetMemoryInfo_v2(Memory2) |of, limit| {
        limited(limit, [&mut of.total, &mut of.free, &mut of.used]);
        of.reserved = of.reserved.min(of.total - of.used);
    };
    nvmlDeviceGetConfComputeProtectedMemoryUsage(Memory) |of, limit| {
        limited(limit, [&mut of.total, &mut of.free, &mut of.used]);
    };
    nvmlDeviceGetConfComputeMemSizeInfo(Protected) |of, limit| {
        of.iter_mut().for_each(|kib| *kib = (limit.limit >> 10).min(*kib));
    };
    nvmlDeviceGetBAR1MemoryInfo(Memory) |of, limit| {
        of.total = limit.limit.min(of.total);
        of.used = of.used.min(of.total);
        of.free = of.free.min(of.total - of.used);
    };
    nvmlDeviceGetAttributes_v2(Attributes) |of, limit| {
        of.memory = (limit.limit >> 20).min(of.memory);
    };
    nvmlDeviceGetRunningProcessDetailList(Details) |of, limit| {
        // SAFETY: nvml.h demands a list that has `count` elements now, or none.
        let own = unsafe { keep_own(limit, &mut of.count, of.to, |one| one[0]) };
        own.iter_mut().for_each(|one| limit_memory(limit, &mut one[1]));
    };
    nvmlDeviceGetProcessesUtilizationInfo(Samples) |of, limit| {
        // SAFETY: nvml.h demands a list that has `count` elements now, or none.
        unsafe { keep_own(limit, &mut of.count, of.to, |one| one[1]) };
    };
}

/// Keeps the job's own processes in a list, and returns them. `process` returns the word that
/// begins with the number of a process.
///
/// # Safety
///
/// The list is null, or has `count` elements that may be written for as long as the result is used.
unsafe fn keep_own<'a, T: Copy>(
    limit: &Limit,
    count: &mut u32,
    list: *mut T,
    process: impl Fn(&T) -> u64,
) -> &'a mut [T] {
    if list.is_null() {
        return &mut [];
    }
    // SAFETY: not null, and `# Safety` demands `count` elements.
    let all = unsafe { std::slice::from_raw_parts_mut(list, *count as usize) };
    let is_own = |one: &&T| limit.processes.contains(&(process(one) as u32));
    let own: Vec<T> = all.iter().filter(is_own).copied().collect();
    *count = own.len() as u32;
    let kept = &mut all[..own.len()];
    kept.copy_from_slice(&own);
    kept
}

/// Limits the memory of a process: memory of another job beyond the limit isn't shown.
fn limit_memory(limit: &Limit, bytes: &mut u64) {
    if *bytes != NOT_AVAILABLE {
        *bytes = limit.limit.min(*bytes);
    }
}

/// Lists the job's processes. `process` returns the word of an element that begins with the number
/// of a process; `change` limits an element.
///
/// # Safety
///
/// The arguments are those that `nvml.h` has for the function in this slot, whose list has elements
/// of this type.
unsafe fn processes<T: Copy>(
    slot: usize,
    device: Device,
    list: (*mut u32, *mut T),
    process: impl Fn(&T) -> u64,
    change: impl Fn(&Limit, &mut T),
) -> u32 {
    let (count, to) = list;
    // SAFETY: the slot has the real library's function, or one of ours that reads no argument. This
    // function's `# Safety` demands the arguments that nvml.h has for it.
    let (code, count) = unsafe {
        let call = std::mem::transmute::<
            usize,
            unsafe extern "C" fn(Device, *mut u32, *mut T) -> u32,
        >(address(slot));
        (call(device, count, to), count.as_mut())
    };
    if let (0, Some(count)) = (code, count)
        && let Some(limit) = of(device)
    {
        // SAFETY: the library has written `count` elements, if there is a list.
        let own = unsafe { keep_own(&limit, count, to, process) };
        own.iter_mut().for_each(|one| change(&limit, one));
    }
    code
}

/// Exports the versions of lists.
macro_rules! lists {
    ($($name:ident($info:ty);)+) => {
        $(
            #[allow(non_snake_case)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(device: Device, count: *mut u32, to: *mut $info) -> u32 {
                // SAFETY: nvml.h demands of the program a count and a list of that many elements,
                // or none. The type is that of the function in this slot.
                unsafe {
                    processes(slots::$name, device, (count, to), |one| one[0], |limit, one| {
                        limit_memory(limit, &mut one[1]);
                    })
                }
            }
        )+
    };
}

lists! {
    nvmlDeviceGetComputeRunningProcesses(Info1);
    nvmlDeviceGetComputeRunningProcesses_v2(Info2);
    nvmlDeviceGetComputeRunningProcesses_v3(Info2);
    nvmlDeviceGetGraphicsRunningProcesses(Info1);
    nvmlDeviceGetGraphicsRunningProcesses_v2(Info2);
    nvmlDeviceGetGraphicsRunningProcesses_v3(Info2);
    nvmlDeviceGetMPSComputeRunningProcesses(Info1);
    nvmlDeviceGetMPSComputeRunningProcesses_v2(Info2);
    nvmlDeviceGetMPSComputeRunningProcesses_v3(Info2);
}

#[allow(non_snake_case)]
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetAccountingPids(
    device: Device,
    count: *mut u32,
    to: *mut u32,
) -> u32 {
    // SAFETY: nvml.h gives this function these arguments, and its list has numbers of processes.
    unsafe {
        processes(
            slots::nvmlDeviceGetAccountingPids,
            device,
            (count, to),
            |process| u64::from(*process),
            |_, _| {},
        )
    }
}

#[allow(non_snake_case)]
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetProcessUtilization(
    device: Device,
    to: *mut Sample,
    count: *mut u32,
    since: u64,
) -> u32 {
    // SAFETY: the real library's function of these arguments, or one that looks at none. nvml.h
    // demands that `count` is null or may be written.
    let (code, count) = unsafe {
        let call = std::mem::transmute::<
            usize,
            unsafe extern "C" fn(Device, *mut Sample, *mut u32, u64) -> u32,
        >(address(slots::nvmlDeviceGetProcessUtilization));
        (call(device, to, count, since), count.as_mut())
    };
    if let (0, Some(count)) = (code, count)
        && let Some(limit) = of(device)
    {
        // SAFETY: the library has written `count` elements, if there is a list.
        unsafe { keep_own(&limit, count, to, |one| one[0]) };
    }
    code
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
