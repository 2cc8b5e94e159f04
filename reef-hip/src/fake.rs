//! A runtime made of functions in this file, for tests of what no real one does when asked: a
//! symbol that is missing, a code at will, work that never ends.

use crate::context::Context;
use crate::driver::{Driver, Handle};
use parking_lot::{Mutex, MutexGuard};
use reef_core::Result;
use reef_gpu::Options;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Answers of `hipInit`, `hipModuleLaunchKernel` and `hipStreamQuery` from now on.
static INIT: AtomicU32 = AtomicU32::new(0);
static LAUNCH: AtomicU32 = AtomicU32::new(0);
static QUERY: AtomicU32 = AtomicU32::new(0);
/// 1: there is no memory until some is freed; 2: there is none at all.
static SCARCE: AtomicU32 = AtomicU32::new(0);
/// Number of calls that wait for other work.
static FREED: AtomicU32 = AtomicU32::new(0);
static STREAMS_DESTROYED: AtomicU32 = AtomicU32::new(0);
static GRAPHS_DESTROYED: AtomicU32 = AtomicU32::new(0);

/// The right to choose the answers above; tests take turns.
struct Answers {
    _turn: MutexGuard<'static, ()>,
}

impl Answers {
    fn take() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock();
        for answer in [&INIT, &LAUNCH, &QUERY, &SCARCE] {
            answer.store(0, Relaxed);
        }
        Self { _turn }
    }

    /// The device of a runtime as HIP 5; counts begin now.
    fn device(&self) -> Context {
        let device = Context::open_with(driver(OLD).unwrap(), 0, &Options::default()).unwrap();
        for count in [&FREED, &STREAMS_DESTROYED, &GRAPHS_DESTROYED] {
            count.store(0, Relaxed);
        }
        device
    }
}

extern "C" fn fine() -> u32 {
    0
}

extern "C" fn init(_: c_uint) -> u32 {
    INIT.load(Relaxed)
}

extern "C" fn one(value: *mut c_int) -> u32 {
    // SAFETY: `hipGetDeviceCount` gets a pointer to an `int`, valid for the call.
    unsafe { *value = 1 };
    0
}

extern "C" fn version(value: *mut c_int) -> u32 {
    // SAFETY: `hipRuntimeGetVersion` gets a pointer to an `int`, valid for the call.
    unsafe { *value = 50221153 };
    0
}

/// As HIP 5.2 answers: some attributes it doesn't know.
extern "C" fn attribute(value: *mut c_int, attribute: c_uint, _: c_int) -> u32 {
    let answer = match attribute {
        57 => 2560,
        63 => 60,
        71 | 74 | 10002 => 65536,
        _ => return 1,
    };
    // SAFETY: `hipDeviceGetAttribute` gets a pointer to an `int`, valid for the call.
    unsafe { *value = answer };
    0
}

/// Puts the target's name where it is in a structure of this kind.
///
/// # Safety
///
/// `to` is the start of such a structure.
unsafe fn put_target(to: *mut c_void, at: usize, target: &CStr) {
    // SAFETY: `to` begins a structure that has room for the name and its NUL at `at`: `put_target`
    // demands it.
    unsafe { target.as_ptr().copy_to(to.cast::<c_char>().add(at), target.count_bytes() + 1) };
}

extern "C" fn old_properties(to: *mut c_void, _: c_int) -> u32 {
    // SAFETY: facts.rs gives a buffer that is longer than the structure of
    // `hipGetDeviceProperties`.
    unsafe { put_target(to, 396, c"gfx906:sramecc+:xnack-") };
    0
}

extern "C" fn new_properties(to: *mut c_void, _: c_int) -> u32 {
    // SAFETY: facts.rs gives a buffer that is longer than the structure of
    // `hipGetDevicePropertiesR0600`.
    unsafe { put_target(to, 1160, c"gfx90a:sramecc+:xnack-") };
    0
}

extern "C" fn priorities(least: *mut c_int, greatest: *mut c_int) -> u32 {
    // SAFETY: `hipDeviceGetStreamPriorityRange` gets two pointers to an `int`, valid for the call.
    unsafe { (*least, *greatest) = (1, -1) };
    0
}

extern "C" fn name(code: u32) -> *const c_char {
    let known = match code {
        1 => c"hipErrorInvalidValue",
        100 => c"hipErrorNoDevice",
        101 => c"hipErrorInvalidDevice",
        719 => c"hipErrorLaunchFailure",
        _ => c"hipErrorUnknown",
    };
    known.as_ptr()
}

/// A new number for each handle and each allocation. It is not followed.
fn number() -> *mut c_void {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 40);
    NEXT.fetch_add(1 << 20, Relaxed) as *mut c_void
}

extern "C" fn handle(handle: *mut Handle) -> u32 {
    // SAFETY: each call that makes a handle or memory gives a pointer to a pointer, valid for the
    // call.
    unsafe { *handle = number() };
    0
}

extern "C" fn graph(_: Handle, graph: *mut Handle) -> u32 {
    handle(graph)
}

extern "C" fn alloc(memory: *mut *mut c_void, _: usize) -> u32 {
    match SCARCE.load(Relaxed) {
        0 => handle(memory),
        _ => 2,
    }
}

extern "C" fn free(_: *mut c_void) -> u32 {
    FREED.fetch_add(1, Relaxed);
    let _ = SCARCE.compare_exchange(1, 0, Relaxed, Relaxed);
    0
}

extern "C" fn alloc_host(memory: *mut *mut c_void, bytes: usize, _: c_uint) -> u32 {
    // SAFETY: `hipHostMalloc` gets a pointer to a pointer, valid for the call; the words are never
    // freed.
    unsafe { *memory = vec![0u64; bytes.div_ceil(8)].leak().as_mut_ptr().cast() };
    0
}

extern "C" fn device_of(device: *mut *mut c_void, host: *mut c_void, _: c_uint) -> u32 {
    // SAFETY: `hipHostGetDevicePointer` gets a pointer to a pointer, valid for the call.
    unsafe { *device = host };
    0
}

extern "C" fn launch() -> u32 {
    LAUNCH.load(Relaxed)
}

extern "C" fn query(_: Handle) -> u32 {
    QUERY.load(Relaxed)
}

extern "C" fn destroy_stream(_: Handle) -> u32 {
    STREAMS_DESTROYED.fetch_add(1, Relaxed);
    0
}

extern "C" fn destroy_graph(_: Handle) -> u32 {
    GRAPHS_DESTROYED.fetch_add(1, Relaxed);
    0
}

fn symbol(name_: &str) -> Handle {
    match name_ {
        "hipInit" => init as Handle,
        "hipGetDeviceCount" => one as Handle,
        "hipRuntimeGetVersion" => version as Handle,
        "hipGetErrorName" => name as Handle,
        "hipDeviceGetAttribute" => attribute as Handle,
        "hipGetDeviceProperties" => old_properties as Handle,
        "hipGetDevicePropertiesR0600" => new_properties as Handle,
        "hipDeviceGetStreamPriorityRange" => priorities as Handle,
        "hipStreamCreateWithPriority"
        | "hipExtStreamCreateWithCUMask"
        | "hipEventCreateWithFlags"
        | "hipGraphInstantiate" => handle as Handle,
        "hipStreamEndCapture" => graph as Handle,
        "hipMalloc" => alloc as Handle,
        "hipHostMalloc" | "hipExtMallocWithFlags" => alloc_host as Handle,
        "hipHostGetDevicePointer" => device_of as Handle,
        "hipFree" | "hipHostFree" => free as Handle,
        "hipModuleLaunchKernel" => launch as Handle,
        "hipStreamQuery" => query as Handle,
        "hipStreamDestroy" => destroy_stream as Handle,
        "hipGraphExecDestroy" => destroy_graph as Handle,
        _ => fine as Handle,
    }
}

/// A runtime without the functions named in `missing`.
fn driver(missing: &[&str]) -> Result<&'static Driver> {
    let find =
        |name: &str| if missing.contains(&name) { std::ptr::null_mut() } else { symbol(name) };
    // SAFETY: the functions above take the parameters of hip_runtime_api.h, or fewer, which this
    // platform's calls allow.
    let driver = unsafe { Driver::resolve(find) }?;
    Ok(Box::leak(Box::new(driver)))
}

/// Functions that HIP 5 lacks.
const OLD: &[&str] = &["hipGetDevicePropertiesR0600"];

#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the driver above follows no handle, and gives out nothing twice"
)]
mod tests {
    use super::*;
    use reef_core::Error;
    use reef_gpu::{Graphs, LaunchConfig, Memory, Modules, StreamKind, Streams, Vendor};

    #[test]
    fn a_runtime_that_is_too_old_is_named_by_what_it_lacks() {
        let error = driver(&["hipStreamWaitValue32"]).unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(error, Error::NotFound(_)) && text.contains("hipStreamWaitValue32"),
            "{text}"
        );
    }

    #[test]
    fn a_runtime_without_a_device_says_so_whatever_its_version() {
        let _answers = Answers::take();
        for (code, name) in [(100, "hipErrorNoDevice"), (101, "hipErrorInvalidDevice")] {
            INIT.store(code, Relaxed);
            let want = format!("a HIP runtime, but no device: hipInit: {name} (code {code})");
            assert_eq!(driver(OLD).unwrap().init(), Err(Error::NotFound(want)));
        }
        INIT.store(1, Relaxed);
        assert!(matches!(driver(OLD).unwrap().init(), Err(Error::Driver { code: 1, .. })));
    }

    #[test]
    fn a_device_that_is_not_there_is_an_error() {
        let error = Context::open_with(driver(OLD).unwrap(), 1, &Options::default()).unwrap_err();
        assert_eq!(error, Error::NotFound("no device hip:1 (1 found)".into()));
    }

    #[test]
    fn the_target_is_read_from_the_properties_of_both_layouts() {
        let _answers = Answers::take();
        let features = |driver| {
            let context = Context::open_with(driver, 0, &Options::default()).unwrap();
            context.facts().features.clone()
        };
        let old = features(driver(OLD).unwrap());
        let want =
            ["gfx906:sramecc+:xnack-", "HIP 5.2.21153", "stream memory operations", "CU masks"];
        assert_eq!(old, want);
        assert_eq!(features(driver(&[]).unwrap())[0], "gfx90a:sramecc+:xnack-");
    }

    #[test]
    fn operation_beyond_the_device_is_refused_at_once() {
        let _answers = Answers::take();
        let open =
            |missing, options: &Options| Context::open_with(driver(missing).unwrap(), 0, options);
        let tf32 = Options::parse("hip", "precision=tf32").unwrap();
        assert!(matches!(open(OLD, &tf32), Err(Error::Unsupported { .. })));
        let all = Options::parse("hip", "split=60").unwrap();
        assert!(matches!(open(OLD, &all), Err(Error::Invalid(_))));
        let half = Options::parse("hip", "split=30").unwrap();
        let context = open(&["hipExtStreamCreateWithCUMask"], &half).unwrap();
        let error = context.open_stream(StreamKind::RealTime).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    }

    #[test]
    fn codes_become_kinds_of_errors() {
        let answers = Answers::take();
        let device = answers.device();
        let stream = device.open_stream(StreamKind::RealTime).unwrap();
        let code =
            unsafe { device.load_code(&crate::code::elf::tests::code_object(4, 0x52f)) }.unwrap();
        let function = unsafe { device.function(code, "bump") }.unwrap().unwrap();
        let answer = |code| {
            LAUNCH.store(code, Relaxed);
            // SAFETY: nothing runs.
            let error =
                unsafe { device.launch(stream, function, &LaunchConfig::one_block(1), &mut []) };
            error.unwrap_err().to_string()
        };
        let lost = "hip: device lost: hipModuleLaunchKernel: hipErrorLaunchFailure (code 719)";
        assert_eq!(answer(719), lost);
        assert_eq!(answer(1), "hip: hipModuleLaunchKernel: hipErrorInvalidValue (code 1)");
        assert_eq!(answer(4242), "hip: hipModuleLaunchKernel: hipErrorUnknown (code 4242)");
    }

    #[test]
    fn no_memory_is_an_error_with_what_was_asked() {
        let answers = Answers::take();
        let device = answers.device();
        SCARCE.store(2, Relaxed);
        let error = device.alloc(12345).unwrap_err();
        assert_eq!(error, Error::OutOfMemory { backend: "hip", asked: 12345 });
    }

    #[test]
    fn freeing_does_not_wait_until_memory_runs_out() {
        let answers = Answers::take();
        let device = answers.device();
        let first = device.alloc(1000).unwrap();
        unsafe { device.free(first) };
        assert_eq!(device.alloc(1000).unwrap(), first, "used again");
        unsafe { device.free(first) };
        let (host, _) = device.alloc_host(64).unwrap();
        unsafe { device.free_host(host) };
        let gate = device.alloc_gate().unwrap();
        unsafe { device.free_gate(gate) };
        assert_eq!(FREED.load(Relaxed), 0);
        SCARCE.store(1, Relaxed);
        device.alloc(1 << 20).unwrap();
        assert_eq!(FREED.load(Relaxed), 4, "those three, and what opening has left");
    }

    #[test]
    fn streams_are_kept_for_their_class() {
        let answers = Answers::take();
        let device = answers.device();
        let [rt, be] = [StreamKind::RealTime, StreamKind::BestEffort].map(|kind| {
            let stream = device.open_stream(kind).unwrap();
            unsafe { device.close_stream(stream) };
            stream
        });
        assert_eq!(device.open_stream(StreamKind::BestEffort).unwrap(), be);
        assert_eq!(device.open_stream(StreamKind::RealTime).unwrap(), rt);
        assert_ne!(device.open_stream(StreamKind::RealTime).unwrap(), rt, "it is in use");
        assert_eq!(STREAMS_DESTROYED.load(Relaxed), 0);
        drop(device);
        assert_eq!(STREAMS_DESTROYED.load(Relaxed), 4, "those three, and the one of housekeeping");
    }

    #[test]
    fn a_graph_is_destroyed_when_its_last_run_has_ended() {
        let answers = Answers::take();
        let device = answers.device();
        let streams = [(); 2].map(|()| device.open_stream(StreamKind::BestEffort).unwrap());
        let exec = |stream| {
            unsafe { device.begin_capture(stream) }.unwrap();
            unsafe { device.end_capture(stream) }.unwrap()
        };
        let execs = streams.map(exec);
        QUERY.store(600, Relaxed);
        unsafe { device.free_exec(execs[0]) };
        unsafe { device.close_stream(streams[0]) };
        assert_eq!(GRAPHS_DESTROYED.load(Relaxed), 0, "it may run in the other stream");
        unsafe { device.close_stream(streams[1]) };
        assert_eq!(GRAPHS_DESTROYED.load(Relaxed), 1);
        QUERY.store(0, Relaxed);
        unsafe { device.free_exec(execs[1]) };
        assert_eq!(GRAPHS_DESTROYED.load(Relaxed), 2, "nothing runs");
    }

    #[test]
    fn a_device_with_a_kernel_that_never_ends_is_left_alone() {
        let answers = Answers::take();
        let device = answers.device();
        let stream = device.open_stream(StreamKind::BestEffort).unwrap();
        unsafe { device.free(device.alloc(64).unwrap()) };
        unsafe { device.close_stream(stream) };
        QUERY.store(600, Relaxed);
        drop(device);
        assert_eq!((FREED.load(Relaxed), STREAMS_DESTROYED.load(Relaxed)), (0, 0));
    }
}
