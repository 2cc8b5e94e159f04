//! A driver made of functions in this file, for tests of what no real one does when asked: a symbol
//! that is missing, a code at will, work that never ends.

use crate::driver::Driver;
use crate::{Context, Cuda, Transfers};
use cudarc::driver::sys::{CUdevResource, CUipcMemHandle, CUlaunchConfig};
use parking_lot::{Mutex, MutexGuard};
use reef_core::Result;
use reef_gpu::Options;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Answers of `cuLaunchKernel`, `cuStreamQuery` and `cuMemAllocAsync` from now on.
static LAUNCH: AtomicU32 = AtomicU32::new(0);
static QUERY: AtomicU32 = AtomicU32::new(0);
static ALLOC: AtomicU32 = AtomicU32::new(0);
/// Words that streams were asked to write.
static WRITES: AtomicU32 = AtomicU32::new(0);
/// Calls of `cuMemFreeHost`.
static HOST_FREED: AtomicU32 = AtomicU32::new(0);
/// Calls of `cuMemPoolTrimTo` that keep nothing.
static TRIMS: AtomicU32 = AtomicU32::new(0);
/// The next `cuMemFreeHost` does this before it returns.
static DURING_HOST_FREE: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);
/// Device of all memory of other processes, and how much of it is open.
static SHARED_ON: AtomicU32 = AtomicU32::new(0);
static SHARED_OPEN: AtomicU32 = AtomicU32::new(0);
/// Streams that were opened on some of the multiprocessors, and green contexts that are there.
static STREAMS_OF_PARTS: AtomicU32 = AtomicU32::new(0);
static PARTS: AtomicU32 = AtomicU32::new(0);
/// Copies inside of the device: how many, and the first address and the size of the last.
static COPIES: AtomicU32 = AtomicU32::new(0);
static COPIED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// Launches that were asked to start early.
static EARLY: AtomicU32 = AtomicU32::new(0);
/// 1: stamps, and words that streams write, don't arrive.
static SLOW: AtomicU32 = AtomicU32::new(0);

/// The right to choose the answers above; tests take turns.
struct Answers {
    _turn: MutexGuard<'static, ()>,
}

impl Answers {
    fn take() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        Self { _turn: TURN.lock() }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        for answer in [&LAUNCH, &QUERY, &ALLOC, &SLOW, &SHARED_ON] {
            answer.store(0, Ordering::Relaxed);
        }
    }
}

extern "C" fn fine() -> u32 {
    0
}

extern "C" fn one(value: *mut c_int) -> u32 {
    // SAFETY: `facts::count` gives a pointer to an `int`, valid for the call.
    unsafe { *value = 1 };
    0
}

extern "C" fn version(value: *mut c_int) -> u32 {
    // SAFETY: `Driver::version` gives a pointer to an `int`, valid for the call.
    unsafe { *value = 12040 };
    0
}

extern "C" fn attribute(value: *mut c_int, attribute: c_uint, _: c_int) -> u32 {
    // SAFETY: `facts::attribute_of` gives a pointer to an `int`, valid for the call.
    unsafe {
        *value = match attribute {
            75 => 9,
            76 => 0,
            115 => 1, // memory pools
            _ => 132,
        };
    }
    0
}

extern "C" fn handle(handle: *mut *mut c_void) -> u32 {
    // SAFETY: each call that makes a handle gives a pointer to one, valid for the call. The handle
    // is not followed.
    unsafe { *handle = std::ptr::dangling_mut::<u64>().cast() };
    0
}

extern "C" fn graph(_: *mut c_void, handle_: *mut *mut c_void) -> u32 {
    handle(handle_)
}

extern "C" fn name(code: u32, name: *mut *const c_char) -> u32 {
    let known = match code {
        1 => c"CUDA_ERROR_INVALID_VALUE",
        700 => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        719 => c"CUDA_ERROR_LAUNCH_FAILED",
        _ => return 1,
    };
    // SAFETY: `cuGetErrorName` gets a pointer to a pointer, valid for the call; the text is static.
    unsafe { *name = known.as_ptr() };
    0
}

extern "C" fn alloc(memory: *mut u64, bytes: usize) -> u32 {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 40);
    // SAFETY: `cuMemAlloc` gets a pointer to an address, valid for the call. The address is not
    // followed.
    unsafe { *memory = NEXT.fetch_add(bytes.next_multiple_of(256) as u64, Ordering::Relaxed) };
    0
}

extern "C" fn alloc_async(memory: *mut u64, bytes: usize, _: *mut c_void) -> u32 {
    match ALLOC.load(Ordering::Relaxed) {
        0 => alloc(memory, bytes),
        code => code,
    }
}

extern "C" fn trim(_: *mut c_void, keep: usize) -> u32 {
    TRIMS.fetch_add(u32::from(keep == 0), Ordering::Relaxed);
    0
}

extern "C" fn alloc_host(memory: *mut *mut c_void, bytes: usize, _: c_uint) -> u32 {
    let words = vec![0u64; bytes.div_ceil(8)].leak();
    // SAFETY: `cuMemHostAlloc` gets a pointer to a pointer, valid for the call; the words are never
    // freed.
    unsafe { *memory = words.as_mut_ptr().cast() };
    0
}

extern "C" fn free_host(_: *mut c_void) -> u32 {
    HOST_FREED.fetch_add(1, Ordering::Relaxed);
    let act = DURING_HOST_FREE.lock().take();
    act.into_iter().for_each(|act| act());
    0
}

extern "C" fn device_of(device: *mut u64, host: *mut c_void, _: c_uint) -> u32 {
    // SAFETY: `cuMemHostGetDevicePointer` gets a pointer to an address, valid for the call.
    unsafe { *device = host as u64 };
    0
}

/// Runs at once what writes to the host: the kernel `stamp`, by its parameters.
#[allow(clippy::too_many_arguments)]
extern "C" fn launch_with(
    config: *const CUlaunchConfig,
    _: *mut c_void,
    _: *mut *mut c_void,
    _: *mut c_void,
) -> u32 {
    // SAFETY: `Modules::launch` gives a configuration and one attribute, which are valid for the
    // call; the value that is read is the one that it sets.
    let (name, allowed) = unsafe {
        let attribute = &*(*config).attrs;
        (attribute.id as u32, attribute.value.programmaticStreamSerializationAllowed)
    };
    if (name, allowed) == (6, 1) {
        EARLY.fetch_add(1, Ordering::Relaxed);
    }
    0
}

extern "C" fn launch(
    _: *mut c_void,
    _: u32,
    _: u32,
    _: u32,
    threads: u32,
    _: u32,
    _: u32,
    _: u32,
    _: *mut c_void,
    params: *mut *mut u64,
    _: *mut c_void,
) -> u32 {
    let code = LAUNCH.load(Ordering::Relaxed);
    if code == 0 && threads == 1 && SLOW.load(Ordering::Relaxed) == 0 {
        // SAFETY: of the kernels that the backend launches with one thread, only `stamp` has three
        // parameters, and no test here has the driver lack stream writes; so these are its
        // addresses, both the host's, of which the second may be null.
        unsafe {
            *(**params as *mut u64) = 1;
            if let Some(done) = (**params.add(1) as *mut u32).as_mut() {
                *done = **params.add(2) as u32;
            }
        }
    }
    code
}

extern "C" fn copy(to: u64, _: u64, bytes: usize, _: *mut c_void) -> u32 {
    COPIES.fetch_add(1, Ordering::Relaxed);
    COPIED[0].store(to, Ordering::Relaxed);
    COPIED[1].store(bytes as u64, Ordering::Relaxed);
    0
}

extern "C" fn query(_: *mut c_void) -> u32 {
    QUERY.load(Ordering::Relaxed)
}

extern "C" fn write_value(_: *mut c_void, address: u64, value: u32, _: c_uint) -> u32 {
    WRITES.fetch_add(1, Ordering::Relaxed);
    if SLOW.load(Ordering::Relaxed) == 0 && !(1 << 40..1 << 44).contains(&address) {
        // SAFETY: an address outside the range of `alloc` is one of `alloc_host`.
        unsafe { *(address as *mut u32) = value };
    }
    0
}

/// The first byte of a handle is how many KiB its memory has, of which there are none under 1.
extern "C" fn open_ipc(memory: *mut u64, handle: CUipcMemHandle, _: c_uint) -> u32 {
    let kib = handle.reserved[0] as u8;
    if kib == 0 {
        return 1;
    }
    SHARED_OPEN.fetch_add(1, Ordering::Relaxed);
    // SAFETY: `Context::open_ipc` gives a pointer to an address, valid for the call. The address is
    // not followed.
    unsafe { *memory = u64::from(kib) << 44 };
    0
}

extern "C" fn close_ipc(_: u64) -> u32 {
    SHARED_OPEN.fetch_sub(1, Ordering::Relaxed);
    0
}

extern "C" fn range(begin: *mut u64, bytes: *mut usize, memory: u64) -> u32 {
    // SAFETY: `Context::check_ipc` gives pointers to an address and a size, valid for the call.
    unsafe { (*begin, *bytes) = (memory, (memory >> 34) as usize) };
    0
}

extern "C" fn device_of_pointer(value: *mut c_int, _: c_uint, _: u64) -> u32 {
    // SAFETY: `Context::check_ipc` gives a pointer to an `int`, valid for the call, and asks for
    // nothing but the device.
    unsafe { *value = SHARED_ON.load(Ordering::Relaxed) as c_int };
    0
}

extern "C" fn multiprocessors(_: c_int, resource: *mut CUdevResource, _: c_uint) -> u32 {
    // SAFETY: `parts::whole` gives a pointer to a resource of zeros, valid for the call.
    unsafe { (*resource).__bindgen_anon_1.sm.smCount = 132 };
    0
}

/// As on sm_90: a multiple of 8, and none where there are fewer.
extern "C" fn divide(
    part: *mut CUdevResource,
    parts: *mut c_uint,
    from: *const CUdevResource,
    rest: *mut CUdevResource,
    _: c_uint,
    least: c_uint,
) -> u32 {
    // SAFETY: `parts::groups` and `parts::divide` give room for `*parts` resources at `part`, and
    // pointers that are valid for the call. `multiprocessors` has filled in what is divided.
    unsafe {
        let (all, units) = ((*from).__bindgen_anon_1.sm.smCount, least.next_multiple_of(8));
        if units > all {
            return if least > all {
                914
            } else {
                *parts = 0;
                0
            };
        }
        // At most as many groups as the device has, as the driver says; here all but one.
        let count = (*parts).min((all - 1) / units);
        for at in 0..count {
            (*part.add(at as usize)).__bindgen_anon_1.sm.smCount = units;
        }
        *parts = count;
        (*rest).__bindgen_anon_1.sm.smCount = all - count * units;
    }
    0
}

extern "C" fn open_part(part: *mut *mut c_void, _: *mut c_void, _: c_int, _: c_uint) -> u32 {
    PARTS.fetch_add(1, Ordering::Relaxed);
    handle(part)
}

extern "C" fn close_part(_: *mut c_void) -> u32 {
    PARTS.fetch_sub(1, Ordering::Relaxed);
    0
}

extern "C" fn stream_of_part(stream: *mut *mut c_void, _: *mut c_void, _: c_uint, _: c_int) -> u32 {
    STREAMS_OF_PARTS.fetch_add(1, Ordering::Relaxed);
    handle(stream)
}

fn symbol(name_: &str) -> *mut c_void {
    match name_ {
        "cuDeviceGetCount" => one as *mut c_void,
        "cuDriverGetVersion" => version as *mut c_void,
        "cuGetErrorName" => name as *mut c_void,
        "cuDeviceGetAttribute" => attribute as *mut c_void,
        "cuModuleLoadData"
        | "cuModuleGetFunction"
        | "cuStreamCreateWithPriority"
        | "cuEventCreate"
        | "cuDevicePrimaryCtxRetain"
        | "cuGraphInstantiateWithFlags" => handle as *mut c_void,
        "cuStreamEndCapture" => graph as *mut c_void,
        "cuMemAlloc_v2" => alloc as *mut c_void,
        "cuMemAllocAsync" => alloc_async as *mut c_void,
        "cuMemPoolTrimTo" => trim as *mut c_void,
        "cuMemHostAlloc" => alloc_host as *mut c_void,
        "cuMemFreeHost" => free_host as *mut c_void,
        "cuMemHostGetDevicePointer_v2" => device_of as *mut c_void,
        "cuIpcOpenMemHandle_v2" => open_ipc as *mut c_void,
        "cuIpcCloseMemHandle" => close_ipc as *mut c_void,
        "cuMemGetAddressRange_v2" => range as *mut c_void,
        "cuPointerGetAttribute" => device_of_pointer as *mut c_void,
        "cuLaunchKernelEx" => launch_with as *mut c_void,
        "cuLaunchKernel" => launch as *mut c_void,
        "cuMemcpyDtoDAsync_v2" => copy as *mut c_void,
        "cuStreamQuery" => query as *mut c_void,
        "cuStreamWriteValue32_v2" => write_value as *mut c_void,
        "cuDeviceGetDevResource" => multiprocessors as *mut c_void,
        "cuDevSmResourceSplitByCount" => divide as *mut c_void,
        "cuGreenCtxCreate" => open_part as *mut c_void,
        "cuGreenCtxDestroy" => close_part as *mut c_void,
        "cuGreenCtxStreamCreate" => stream_of_part as *mut c_void,
        "cuFuncGetParamInfo" => std::ptr::null_mut(),
        _ => fine as *mut c_void,
    }
}

/// A driver without the functions named in `missing`.
fn driver(missing: &[&str]) -> Result<&'static Driver> {
    let find =
        |name: &str| if missing.contains(&name) { std::ptr::null_mut() } else { symbol(name) };
    // SAFETY: the functions above take the parameters of cuda.h, or fewer, which this platform's
    // calls allow.
    let driver = unsafe { Driver::resolve(find) }?;
    Ok(Box::leak(Box::new(driver)))
}

/// Opens its device of this number.
fn open(driver: &'static Driver, ordinal: usize) -> Result<Cuda> {
    open_with(driver, ordinal, "")
}

fn open_with(driver: &'static Driver, ordinal: usize, options: &str) -> Result<Cuda> {
    let options = Options::parse("cuda", options)?;
    Cuda::new(Context::open_with(driver, ordinal, &options)?, options)
}

fn device() -> Cuda {
    open(driver(&[]).unwrap(), 0).unwrap()
}

mod tests {
    use super::*;
    use reef_core::{
        Args, Command, Device, Error, Launch, PreemptLevel, Preemptor, Priority, Queue, Seq,
    };
    use reef_gpu::{StreamKind, Streams as _};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    /// One kernel of one block.
    fn kernel(device: &Cuda) -> Launch<Cuda> {
        let append = device.kernel("append").unwrap();
        // SAFETY: nothing runs.
        unsafe { Launch::new(append, [1; 3], [32, 1, 1], Args::new(&[0; 3])) }
    }

    #[test]
    fn a_driver_that_is_too_old_is_named_by_what_it_lacks() {
        let error = driver(&["cuGraphUpload"]).unwrap_err();
        assert!(
            matches!(&error, Error::NotFound(text) if text.contains("cuGraphUpload")),
            "{error}"
        );
    }

    #[test]
    fn functions_newer_than_the_oldest_driver_may_be_missing() {
        let _answers = Answers::take();
        let old = driver(&["cuMemAllocAsync", "cuGreenCtxCreate"]).unwrap();
        let device = open(old, 0).unwrap();
        let features = device.info().features;
        assert!(features.contains(&"driver 12.4".into()), "{features:?}");
        assert!(!features.contains(&"memory pools".into()), "{features:?}");
        assert!(!features.contains(&"green contexts".into()), "{features:?}");
        device.alloc(64).unwrap();
    }

    #[test]
    fn trim_returns_the_memory_of_the_pool_where_there_is_one() {
        let _answers = Answers::take();
        let before = TRIMS.load(Ordering::Relaxed);
        device().trim().unwrap();
        assert_eq!(TRIMS.load(Ordering::Relaxed), before + 1);
        for missing in ["cuMemAllocAsync", "cuMemPoolTrimTo"] {
            open(driver(&[missing]).unwrap(), 0).unwrap().trim().unwrap();
        }
        assert_eq!(TRIMS.load(Ordering::Relaxed), before + 1, "the others keep nothing");
    }

    #[test]
    fn a_device_that_is_not_there_is_an_error() {
        let error = open(driver(&[]).unwrap(), 1);
        assert_eq!(error.unwrap_err(), Error::NotFound("no device cuda:1 (1 found)".into()));
    }

    /// The error of opening a device with these options.
    fn refused(missing: &[&str], options: &str) -> String {
        open_with(driver(missing).unwrap(), 0, options).unwrap_err().to_string()
    }

    #[test]
    fn parts_of_the_multiprocessors_that_cannot_be_had_are_refused() {
        let _answers = Answers::take();
        let want = "unsupported: split: green contexts, which drivers have from CUDA 12.5 on";
        for missing in ["cuGreenCtxStreamCreate", "cuGreenCtxCreate", "cuDeviceGetDevResource"] {
            let error = refused(&[missing], "split=32");
            assert_eq!(error, format!("cuda: {want}"), "without {missing}");
        }
        let error = refused(&[], "split=131");
        assert_eq!(error, "cuda option split: must be a part of 132 multiprocessors, got 131");
        let error = refused(&[], "split=200");
        let why = "cuda: cuDevSmResourceSplitByCount: unknown (code 914)";
        let want = "cuda option split: must be a part of 132 multiprocessors, got 200";
        assert_eq!(error, format!("{want} ({why})"));
        assert_eq!(PARTS.load(Ordering::Relaxed), 0, "nothing is left open");
    }

    /// Streams of parts and parts that there are once streams of this part were opened twice, and
    /// parts once the device is closed.
    fn opened(missing: &[&str]) -> (u32, u32, u32) {
        let count = |of: &AtomicU32| of.load(Ordering::Relaxed);
        let before = (count(&STREAMS_OF_PARTS), count(&PARTS));
        let device = open(driver(missing).unwrap(), 0).unwrap();
        for _ in 0..2 {
            device.vendor().open_part_stream(StreamKind::BestEffort, 40).unwrap();
        }
        let after = (count(&STREAMS_OF_PARTS) - before.0, count(&PARTS) - before.1);
        drop(device);
        (after.0, after.1, count(&PARTS) - before.1)
    }

    #[test]
    fn part_is_made_once_and_ends_with_the_device() {
        let _answers = Answers::take();
        assert_eq!(opened(&[]), (2, 1, 0));
    }

    #[test]
    fn part_that_the_driver_refuses_is_the_whole_device() {
        let _answers = Answers::take();
        assert_eq!(opened(&["cuGreenCtxCreate"]), (0, 0, 0));
        assert!(!open(driver(&["cuGreenCtxCreate"]).unwrap(), 0).unwrap().has_parts());
        assert!(open(driver(&[]).unwrap(), 0).unwrap().has_parts());
    }

    #[test]
    fn transfer_copies_once_in_a_stream_that_others_can_name() {
        let _answers = Answers::take();
        let transfers = Transfers::open(&device()).unwrap();
        assert_eq!(crate::ordinal(&device()), 0);
        assert_ne!(transfers.handle(), 0, "0 is the default stream's");
        assert!(transfers.is_idle().unwrap() && transfers.default_is_idle().unwrap());
        QUERY.store(600, Ordering::Relaxed); // not ready
        assert!(!transfers.is_idle().unwrap() && !transfers.default_is_idle().unwrap());
        QUERY.store(719, Ordering::Relaxed);
        assert!(matches!(transfers.is_idle(), Err(Error::DeviceLost { .. })));
        let before = COPIES.load(Ordering::Relaxed);
        // SAFETY: this driver follows no address.
        unsafe {
            transfers.copy(7 << 40, 3 << 40, 0).unwrap();
            assert_eq!(COPIES.load(Ordering::Relaxed), before, "nothing to copy");
            transfers.copy(7 << 40, 3 << 40, 602_112).unwrap();
        }
        let copied = COPIED.each_ref().map(|number| number.load(Ordering::Relaxed));
        assert_eq!((COPIES.load(Ordering::Relaxed), copied), (before + 1, [7 << 40, 602_112]));
    }

    #[test]
    fn transfer_without_the_drivers_call_is_unsupported() {
        let _answers = Answers::take();
        let device = open_with(driver(&["cuMemcpyDtoDAsync_v2"]).unwrap(), 0, "").unwrap();
        let transfers = Transfers::open(&device).unwrap();
        // SAFETY: this driver follows no address.
        let error = unsafe { transfers.copy(7 << 40, 3 << 40, 4) }.unwrap_err();
        assert!(error.to_string().contains("cuMemcpyDtoDAsync"), "{error}");
    }

    #[test]
    fn codes_become_kinds_of_errors() {
        let _answers = Answers::take();
        let device = device();
        let mut queue = device.queue(Priority::RealTime, None).unwrap();
        let launch = kernel(&device);
        let mut answer = |code| {
            LAUNCH.store(code, Ordering::Relaxed);
            let error = queue.launch(Seq(0), &launch, None).unwrap_err();
            LAUNCH.store(0, Ordering::Relaxed);
            error.to_string()
        };
        let lost = "cuda: device lost: cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED (code 719)";
        assert_eq!(answer(719), lost);
        assert_eq!(answer(1), "cuda: cuLaunchKernel: CUDA_ERROR_INVALID_VALUE (code 1)");
        assert_eq!(answer(4242), "cuda: cuLaunchKernel: unknown (code 4242)");
        ALLOC.store(2, Ordering::Relaxed);
        let error = device.alloc(12345).unwrap_err();
        ALLOC.store(0, Ordering::Relaxed);
        assert_eq!(error, Error::OutOfMemory { backend: "cuda", asked: 12345 });
    }

    #[test]
    fn a_device_that_falls_silent_is_asked_about() {
        let _answers = Answers::take();
        let device = device();
        let mut queue = device.queue(Priority::BestEffort, None).unwrap();
        SLOW.store(1, Ordering::Relaxed);
        queue.launch(Seq(0), &kernel(&device), None).unwrap();
        QUERY.store(600, Ordering::Relaxed); // not ready
        let polls = (0..100_000).map(|_| queue.completed().unwrap()).filter(|&seq| seq > Seq(0));
        assert_eq!(polls.count(), 0, "nothing has completed");
        for code in [700, 226, 721, 810] {
            QUERY.store(code, Ordering::Relaxed);
            let error = (0..100_000).find_map(|_| queue.completed().err());
            assert!(matches!(error, Some(Error::DeviceLost { .. })), "{code}: {error:?}");
        }
    }

    #[test]
    fn pinned_memory_is_given_back_while_the_driver_frees_other() {
        let _answers = Answers::take();
        let device = device();
        let [first, second] = [1, 2].map(|_| device.alloc_host(1000).unwrap());
        drop(first);
        let (given_back, result) = mpsc::channel();
        *DURING_HOST_FREE.lock() = Some(Box::new(move || {
            let (done, is_done) = mpsc::channel();
            thread::spawn(move || {
                drop(second);
                let _ = done.send(());
            });
            given_back.send(is_done.recv_timeout(Duration::from_secs(60)).is_ok()).unwrap();
        }));
        device.vendor().release_pinned(); // as when there is no memory left
        assert_eq!(result.try_recv(), Ok(true), "a drop waited for cuMemFreeHost");
    }

    #[test]
    fn pinned_memory_is_used_again_and_freed_with_the_device() {
        let _answers = Answers::take();
        let device = device();
        let freed = || HOST_FREED.load(Ordering::Relaxed);
        let before = freed();
        let [first, second] = [1, 2].map(|_| device.alloc_host(1000).unwrap());
        device.write(&first, 0, &[7; 1000]).unwrap();
        let address = first.address();
        assert_ne!(address, second.address());
        drop(first);
        let again = device.alloc_host(1001).unwrap();
        assert_eq!((again.address(), freed()), (address, before));
        let mut bytes = [1; 1001];
        device.read(&again, 0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 1001], "it is zeroed");
        drop((again, second));
        assert_eq!(freed(), before);
        drop(device);
        assert!(freed() >= before + 2);
    }

    #[test]
    fn shared_memory_is_opened_on_its_own_device_and_closed() {
        let _answers = Answers::take();
        let device = device();
        let open = || SHARED_OPEN.load(Ordering::Relaxed);
        let handle = |kib| std::array::from_fn(|at| if at == 0 { kib } else { 0 });
        let (buffer, bytes) = device.open_shared(&handle(3)).unwrap();
        assert_eq!((bytes, buffer.address(), open()), (3 << 10, 3 << 44, 1));
        let said = device.open_shared(&handle(0)).unwrap_err().to_string();
        let none = "handle: no memory of another process: cuda: cuIpcOpenMemHandle_v2: CUDA_ERROR_INVALID_VALUE (code 1)";
        assert_eq!((said.as_str(), open()), (none, 1));
        SHARED_ON.store(1, Ordering::Relaxed);
        let said = device.open_shared(&handle(3)).unwrap_err().to_string();
        let other = "handle: must be of memory on cuda:0, got cuda:1";
        assert_eq!((said.as_str(), open()), (other, 1), "closed again");
        drop(buffer);
        assert_eq!(open(), 0);
        let old = open_device_without_ipc();
        assert!(matches!(old.open_shared(&handle(3)), Err(Error::Unsupported { .. })));
    }

    fn open_device_without_ipc() -> Cuda {
        super::open(driver(&["cuIpcOpenMemHandle_v2"]).unwrap(), 0).unwrap()
    }

    /// Launches that start early of a graph of three kernels of ours.
    fn early_of_three(driver: &'static Driver) -> u32 {
        let device = open_with(driver, 0, "").unwrap();
        let mut queue = device.queue(Priority::RealTime, None).unwrap();
        let commands = [(); 3].map(|()| Command::Launch(kernel(&device)));
        let graph = device.graph(&commands).unwrap();
        let before = EARLY.load(Ordering::Relaxed);
        queue.launch_graph(Seq(0), &graph, None).unwrap();
        EARLY.load(Ordering::Relaxed) - before
    }

    #[test]
    fn kernels_of_a_graph_start_early_where_the_driver_lets_them() {
        let _answers = Answers::take();
        assert_eq!(early_of_three(driver(&[]).unwrap()), 2);
        assert_eq!(early_of_three(driver(&["cuLaunchKernelEx"]).unwrap()), 0);
    }

    #[test]
    fn one_mark_serves_all_that_was_launched() {
        let _answers = Answers::take();
        let device = device();
        let mut queue = device.queue(Priority::BestEffort, None).unwrap();
        let before = WRITES.load(Ordering::Relaxed);
        for seq in 0..5 {
            queue.launch(Seq(seq), &kernel(&device), None).unwrap();
        }
        assert_eq!(queue.completed().unwrap(), Seq(5));
        assert_eq!(WRITES.load(Ordering::Relaxed) - before, 1);
    }

    #[test]
    fn end_of_a_launch_means_nothing_while_evicted() {
        let _answers = Answers::take();
        let device = device();
        let flag = device.preemptor(PreemptLevel::All).unwrap();
        let mut queue = device.queue(Priority::BestEffort, Some(&flag)).unwrap();
        queue.launch(Seq(0), &kernel(&device), None).unwrap();
        flag.evict().unwrap();
        assert_eq!(queue.completed().unwrap(), Seq(0), "it may have been void");
        assert!(queue.try_drain().unwrap().is_none(), "the report is not there");
    }
}
