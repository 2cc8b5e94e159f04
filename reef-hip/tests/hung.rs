//! A kernel that never answers: its work is lost, everybody else goes on. Alone in its file because
//! the device is left with it.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "all calls alike: handles are open, and what was taken is given back once, after its last use"
)]

use reef_core::{Error, Priority};
use reef_gfx906::{Settings, Software};
use reef_gpu::{Build, LaunchConfig, Memory, Modules, Options, Streams, Vendor};
use reef_hip::{Code, Context, Stream};
use std::ffi::c_void;
use std::time::{Duration, Instant};

const SOURCE: &str = r#"
extern "C" __global__ void deaf(unsigned *word) {
    while (!__hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM))
        __builtin_amdgcn_s_sleep(1);
}
extern "C" __global__ void bump(unsigned *word) { *word += 1; }
"#;

fn launch(context: &Context, code: Code, stream: Stream, name: &str, mut address: u64) {
    let function = unsafe { context.function(code, name) }.unwrap().unwrap();
    let mut params: [*mut c_void; 1] = [(&raw mut address).cast()];
    // SAFETY: both kernels take an address, and the words stay.
    unsafe { context.launch(stream, function, &LaunchConfig::one_block(1), &mut params) }.unwrap();
}

#[test]
fn a_kernel_that_never_ends_takes_nothing_along() {
    let software = Software::load().expect("cargo builds the library before its tests");
    assert!(software.configure(&Settings::default()));
    let context = match Context::open(0, &Options::default()) {
        Ok(context) => context,
        Err(Error::NotFound(why)) => return reef_conformance::skip(&why),
        Err(other) => panic!("{other}"),
    };
    let code =
        unsafe { context.load_code(&context.compile(SOURCE, Build::Plain).unwrap()) }.unwrap();
    let (word, address) = context.alloc_host(4).unwrap();
    let abandoned = context.open_stream(Priority::BestEffort.into()).unwrap();
    launch(&context, code, abandoned, "deaf", address);

    // As long as a hardware queue is left: three of its class, and all of real-time work.
    for class in [Priority::BestEffort, Priority::BestEffort, Priority::RealTime] {
        let stream = context.open_stream(class.into()).unwrap();
        let counter = context.alloc(4).unwrap();
        (0..20).for_each(|_| launch(&context, code, stream, "bump", counter));
        unsafe { context.wait(stream) }.unwrap();
        let mut count = [0; 4];
        unsafe { context.read(counter, &mut count) }.unwrap();
        assert_eq!(u32::from_le_bytes(count), 20, "{class:?}");
        unsafe { context.close_stream(stream) };
    }

    let start = Instant::now();
    drop(context);
    assert!(start.elapsed() < Duration::from_secs(60), "closing the device doesn't wait");
    let again = Context::open(0, &Options::default()).unwrap();
    let counter = again.alloc(4).unwrap();
    let code = unsafe { again.load_code(&again.compile(SOURCE, Build::Plain).unwrap()) }.unwrap();
    let stream = again.open_stream(Priority::RealTime.into()).unwrap();
    launch(&again, code, stream, "bump", counter);
    unsafe { again.wait(stream) }.unwrap();
    // SAFETY: the host's word, which was never freed. Lets the process end.
    unsafe { word.cast::<u32>().write_volatile(1) };
}
