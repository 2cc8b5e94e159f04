//! The device, and kernels for it.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "all calls alike: handles are open, and what was taken is given back once, after its last use"
)]

use parking_lot::{Mutex, MutexGuard};
use reef_core::{Error, Priority};
use reef_gfx906::{Settings, Software};
use reef_gpu::{Build, LaunchConfig, Memory, Modules, Options, Streams, Vendor};
use reef_hip::{Code, Context, Function, Stream};
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const SOURCE: &str = r#"
extern "C" __global__ void empty() {}

// *word += by
extern "C" __global__ void bump(unsigned *word, unsigned long long by) { *word += by; }

// Ends when the host says so.
extern "C" __global__ void spin(unsigned *stop) {
    while (!__hip_atomic_load(stop, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM))
        __builtin_amdgcn_s_sleep(1);
}

struct Large { unsigned numbers[16]; };

extern "C" __global__ void parameters(Large large, unsigned *to, unsigned char small) {
    __shared__ unsigned sum[100];
    sum[threadIdx.x] = large.numbers[threadIdx.x % 16] + small;
    __syncthreads();
    *to = sum[99 - threadIdx.x];
}
"#;

/// An open device with kernels.
pub(crate) struct Bench {
    pub(crate) context: Context,
    pub(crate) software: &'static Software,
    pub(crate) image: Vec<u8>,
    pub(crate) code: Code,
    _turn: MutexGuard<'static, ()>,
}

/// Flag by which the host lets a spinning kernel end.
pub(crate) struct Spinning {
    stop: *mut u32,
}

impl Spinning {
    pub(crate) fn end(&self) {
        // SAFETY: the word is the host's, and stays.
        unsafe { AtomicU32::from_ptr(self.stop) }.store(1, Ordering::SeqCst);
    }
}

impl Bench {
    /// `None`, said aloud, where AMD's runtime is not installed.
    pub(crate) fn open() -> Option<Self> {
        Self::open_with(&Options::default())
    }

    pub(crate) fn open_with(options: &Options) -> Option<Self> {
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock();
        let software = software();
        let context = match Context::open(0, options) {
            Ok(context) => context,
            Err(Error::NotFound(why)) => {
                reef_conformance::skip(&why);
                return None;
            }
            Err(other) => panic!("{other}"),
        };
        let image = context.compile(SOURCE, Build::Plain).unwrap();
        let code = unsafe { context.load_code(&image) }.unwrap();
        Some(Self { context, software, image, code, _turn })
    }

    pub(crate) fn function(&self, name: &str) -> Function {
        unsafe { self.context.function(self.code, name) }.unwrap().unwrap()
    }

    pub(crate) fn stream(&self, class: Priority) -> Stream {
        self.context.open_stream(class.into()).unwrap()
    }

    /// Launches one block of a kernel whose parameters are words.
    pub(crate) fn launch(&self, stream: Stream, name: &str, mut words: Vec<u64>) {
        let function = self.function(name);
        let mut params: Vec<*mut c_void> =
            words.iter_mut().map(|word| (&raw mut *word).cast()).collect();
        // SAFETY: each test gives the words that the kernel in `SOURCE` takes, and waits for its
        // end before it frees what they point to.
        unsafe { self.context.launch(stream, function, &LaunchConfig::one_block(1), &mut params) }
            .unwrap();
    }

    /// A kernel runs in the stream until it is told to end.
    pub(crate) fn spin(&self, stream: Stream) -> Spinning {
        let (stop, address) = self.context.alloc_host(4).unwrap();
        self.launch(stream, "spin", vec![address]);
        Spinning { stop: stop.cast() }
    }

    pub(crate) fn read(&self, address: u64) -> u32 {
        let mut bytes = [0; 4];
        unsafe { self.context.read(address, &mut bytes) }.unwrap();
        u32::from_le_bytes(bytes)
    }

    pub(crate) fn is_idle(&self, stream: Stream) -> bool {
        unsafe { self.context.is_idle(stream) }.unwrap()
    }

    /// Returns whether the stream becomes idle soon.
    pub(crate) fn ends(&self, stream: Stream) -> bool {
        self.ends_within(stream, Duration::from_secs(60))
    }

    pub(crate) fn ends_within(&self, stream: Stream, time: Duration) -> bool {
        let start = Instant::now();
        while !self.is_idle(stream) {
            if start.elapsed() > time {
                return false;
            }
            std::thread::sleep(Duration::from_micros(200)); // sleep: poll of a condition
        }
        true
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.software.last_fault(), "", "a fault ends a kernel without a word");
        }
    }
}

/// The software device, in the place of the library that talks to the kernel driver, before AMD's
/// runtime is loaded.
pub(crate) fn software() -> &'static Software {
    static SOFTWARE: OnceLock<Software> = OnceLock::new();
    SOFTWARE.get_or_init(|| {
        let software = Software::load().expect("cargo builds the library before its tests");
        assert!(software.configure(&Settings::default()));
        software
    })
}
