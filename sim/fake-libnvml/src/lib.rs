//! A management library that is made of functions: what tests run on where there is no NVIDIA
//! driver.
//!
//! `REEF_FAKE_NVML` names a file with a line for each process, `PID BYTES PERCENT`, where `-` bytes
//! aren't known. It is read at each call. `REEF_FAKE_NVML_INIT` is the code of `nvmlInit_v2`,
//! `REEF_FAKE_NVML_LIST` that of lists of processes and of energy, `REEF_FAKE_NVML_MPS` that of
//! those under MPS, which are empty without it. All devices whose UUID begins with `GPU-` are
//! there, have 1 GiB and the same processes. One takes 50 W, 1 W for each per cent, and has taken a
//! millijoule for each byte that is used.
//!
//! Without `REEF_FAKE_NVML` processes and bytes are those of the fake driver's file,
//! `REEF_FAKE_MEMORY`, and the device has `REEF_FAKE_BYTES`.

use std::ffi::{CStr, c_char};

const NOT_FOUND: u32 = 6;
const INSUFFICIENT_SIZE: u32 = 7;
/// Processes in the fake driver's file: their bytes, a word, and their numbers.
const MAX_PROCESSES: usize = 64;
/// Of the fake driver's first device.
const UUID: &CStr = c"GPU-66616b65-2064-6576-6963-65206e6f2030";

/// The code in a variable; zero without it.
fn code(name: &str) -> u32 {
    std::env::var(name).ok().and_then(|code| code.parse().ok()).unwrap_or(0)
}

/// Bytes of the device.
fn capacity() -> u64 {
    match std::env::var("REEF_FAKE_BYTES").ok().and_then(|bytes| bytes.parse().ok()) {
        Some(bytes) if std::env::var_os("REEF_FAKE_NVML").is_none() => bytes,
        _ => 1 << 30,
    }
}

/// Processes of the fake driver that live.
fn of_driver(path: &std::ffi::OsStr) -> Vec<(u32, u64, u32)> {
    let words = std::fs::read(path).unwrap_or_default();
    let word = |at: usize| {
        let bytes = words.get(8 * at..8 * at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let process = |at: usize| {
        let (bytes, pid) = (word(at)?, word(MAX_PROCESSES + 1 + at)?);
        let is_there = bytes > 0 && std::path::Path::new(&format!("/proc/{pid}")).exists();
        is_there.then_some((pid as u32, bytes, 0))
    };
    (0..MAX_PROCESSES).filter_map(process).collect()
}

/// Process, bytes, per cent.
fn processes() -> Vec<(u32, u64, u32)> {
    let driver = std::env::var_os("REEF_FAKE_MEMORY");
    if let (None, Some(path)) = (std::env::var_os("REEF_FAKE_NVML"), driver) {
        return of_driver(&path);
    }
    let text =
        std::env::var_os("REEF_FAKE_NVML").and_then(|path| std::fs::read_to_string(path).ok());
    let line = |line: &str| {
        let mut words = line.split(' ');
        let pid = words.next()?.parse().ok()?;
        let bytes = words.next()?.parse().unwrap_or(u64::MAX); // NVML_VALUE_NOT_AVAILABLE
        Some((pid, bytes, words.next().and_then(|word| word.parse().ok()).unwrap_or(0)))
    };
    text.unwrap_or_default().lines().filter_map(line).collect()
}

/// `nvmlProcessDetailList_v1_t`.
#[repr(C)]
#[derive(Debug)]
struct Details {
    version: u32,
    mode: u32,
    count: u32,
    to: *mut [u64; 4],
}

/// Exports functions under the library's names.
macro_rules! exports {
    ($($name:ident($($arg:ident: $type:ty),*) $body:block)+) => {
        $(
            #[allow(non_snake_case)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $type),*) -> u32 $body
        )+
    };
}

/// Writes what is asked for.
///
/// # Safety
///
/// There is room for it.
unsafe fn give<T>(to: *mut T, value: T) -> u32 {
    // SAFETY: `# Safety` demands room for a `T` at `to`.
    unsafe { to.write(value) };
    0
}

/// Writes a list, if it fits.
///
/// # Safety
///
/// There is a length at `count`, and room for that number of elements at `to`.
unsafe fn list<T>(count: *mut u32, to: *mut T, of: impl Fn((u32, u64, u32)) -> T) -> u32 {
    if code("REEF_FAKE_NVML_LIST") != 0 {
        return code("REEF_FAKE_NVML_LIST");
    }
    let all: Vec<T> = processes().into_iter().map(of).collect();
    // SAFETY: `# Safety` demands a length at `count` and room for as many elements at `to`. No more
    // are written.
    unsafe {
        let fits = *count as usize >= all.len();
        *count = all.len() as u32;
        if !fits {
            return INSUFFICIENT_SIZE;
        }
        all.into_iter().enumerate().for_each(|(at, one)| to.add(at).write(one));
    }
    0
}

/// Utilization by all processes, in per cent.
fn percent() -> u32 {
    processes().iter().map(|(.., percent)| percent).sum::<u32>().min(100)
}

fn used() -> u64 {
    processes().iter().map(|(_, bytes, _)| *bytes).filter(|bytes| *bytes <= capacity()).sum()
}

exports! {
    nvmlInit_v2() { code("REEF_FAKE_NVML_INIT") }
    nvmlShutdown() { 0 }
    nvmlDeviceGetCount_v2(count: *mut u32) {
        // SAFETY: nvml.h demands that `count` may be written.
        unsafe { give(count, 1) }
    }
    nvmlDeviceGetUtilizationRates(_device: usize, to: *mut [u32; 2]) {
        // SAFETY: nvml.h demands that `to` may be written, an `nvmlUtilization_t` of two words.
        unsafe { give(to, [percent(), 0]) }
    }
    nvmlDeviceGetPowerUsage(_device: usize, milliwatts: *mut u32) {
        // SAFETY: nvml.h demands that `milliwatts` may be written.
        unsafe { give(milliwatts, 50_000 + 1_000 * percent()) }
    }
    nvmlDeviceGetTotalEnergyConsumption(_device: usize, millijoules: *mut u64) {
        let lists = code("REEF_FAKE_NVML_LIST");
        if lists != 0 {
            return lists;
        }
        // SAFETY: nvml.h demands that `millijoules` may be written.
        unsafe { give(millijoules, used()) }
    }
    nvmlDeviceGetHandleByIndex_v2(_index: u32, device: *mut usize) {
        // SAFETY: nvml.h demands that `device` may be written.
        unsafe { give(device, 1) }
    }
    nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut usize) {
        // SAFETY: nvml.h demands a text that ends with a zero in `uuid`, and that `device` may be
        // written.
        unsafe {
            let is_there = CStr::from_ptr(uuid).to_bytes().starts_with(b"GPU-");
            if is_there { give(device, 1) } else { NOT_FOUND }
        }
    }
    nvmlDeviceGetUUID(_device: usize, to: *mut c_char, length: u32) {
        let bytes = UUID.to_bytes_with_nul();
        if (length as usize) < bytes.len() {
            return INSUFFICIENT_SIZE;
        }
        // SAFETY: nvml.h demands `length` bytes at `to` that may be written, and the text is not
        // longer.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), to, bytes.len()) };
        0
    }
    nvmlDeviceGetMemoryInfo(_device: usize, to: *mut [u64; 3]) {
        // SAFETY: nvml.h demands that `to` may be written, an `nvmlMemory_t` of three words.
        unsafe { give(to, [capacity(), capacity() - used(), used()]) }
    }
    nvmlDeviceGetMemoryInfo_v2(_device: usize, to: *mut [u64; 5]) {
        // SAFETY: nvml.h demands an `nvmlMemory_v2_t` of five words at `to`, of which the version
        // is set.
        unsafe {
            if (*to)[0] as u32 != 40 | 2 << 24 {
                return 25; // NVML_ERROR_ARGUMENT_VERSION_MISMATCH
            }
            give(to, [(*to)[0], capacity(), 0, capacity() - used(), used()])
        }
    }
    nvmlDeviceGetComputeRunningProcesses(_device: usize, count: *mut u32, to: *mut [u64; 2]) {
        // SAFETY: nvml.h demands a length at `count` and room for as many `nvmlProcessInfo_v1_t` at
        // `to`.
        unsafe { list(count, to, |(pid, bytes, _)| [u64::from(pid), bytes]) }
    }
    nvmlDeviceGetComputeRunningProcesses_v2(_device: usize, count: *mut u32, to: *mut [u64; 3]) {
        // SAFETY: nvml.h demands a length at `count` and room for as many `nvmlProcessInfo_v2_t` at
        // `to`.
        unsafe { list(count, to, |(pid, bytes, _)| [u64::from(pid), bytes, u64::MAX]) }
    }
    nvmlDeviceGetComputeRunningProcesses_v3(_device: usize, count: *mut u32, to: *mut [u64; 3]) {
        // SAFETY: nvml.h demands a length at `count` and room for as many `nvmlProcessInfo_t` at
        // `to`.
        unsafe { list(count, to, |(pid, bytes, _)| [u64::from(pid), bytes, u64::MAX]) }
    }
    nvmlDeviceGetGraphicsRunningProcesses_v3(_device: usize, count: *mut u32, to: *mut [u64; 3]) {
        // SAFETY: nvml.h demands a length at `count` and room for as many `nvmlProcessInfo_t` at
        // `to`.
        unsafe { list(count, to, |(pid, bytes, _)| [u64::from(pid), bytes, u64::MAX]) }
    }
    nvmlDeviceGetRunningProcessDetailList(_device: usize, of: *mut Details) {
        // SAFETY: nvml.h demands an `nvmlProcessDetailList_v1_t`, which has room for `count`
        // elements.
        unsafe {
            let (count, to) = (&raw mut (*of).count, (*of).to);
            list(count, to, |(pid, bytes, _)| [u64::from(pid), bytes, u64::MAX, 0])
        }
    }
    nvmlDeviceGetAccountingPids(_device: usize, count: *mut u32, to: *mut u32) {
        // SAFETY: nvml.h demands a length at `count` and room for as many numbers at `to`.
        unsafe { list(count, to, |(pid, ..)| pid) }
    }
    nvmlDeviceGetBAR1MemoryInfo(_device: usize, to: *mut [u64; 3]) {
        // SAFETY: nvml.h demands that `to` may be written, an `nvmlBAR1Memory_t` of three words.
        unsafe { give(to, [capacity(), capacity() - used(), used()]) }
    }
    nvmlDeviceGetAttributes_v2(_device: usize, to: *mut [u64; 5]) {
        // SAFETY: nvml.h demands that `to` may be written, an `nvmlDeviceAttributes_t` of eight
        // numbers of 32 bits and the memory in MiB.
        unsafe { give(to, [0, 0, 0, 0, capacity() >> 20]) }
    }
    nvmlDeviceGetMPSComputeRunningProcesses_v3(_device: usize, count: *mut u32, _to: *mut [u64; 3]) {
        // SAFETY: nvml.h demands that `count` may be written. The list stays empty.
        unsafe { give(count, 0) };
        code("REEF_FAKE_NVML_MPS")
    }
    nvmlDeviceGetProcessUtilization(_device: usize, to: *mut [u64; 4], count: *mut u32, since: u64) {
        // SAFETY: nvml.h demands a length at `count` and room for as many
        // `nvmlProcessUtilizationSample_t` at `to`.
        unsafe {
            list(count, to, |(pid, _, percent)| {
                [u64::from(pid), since + 1, u64::from(percent), 0]
            })
        }
    }
    nvmlSystemGetCudaDriverVersion_v2(version: *mut i32) {
        // SAFETY: nvml.h demands that `version` may be written.
        unsafe { give(version, 13_050) }
    }
}

/// Returns the same text for every code.
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(code: u32) -> *const c_char {
    match code {
        3 => c"Not Supported".as_ptr(),
        9 => c"Driver Not Loaded".as_ptr(),
        _ => c"Some Error".as_ptr(),
    }
}
