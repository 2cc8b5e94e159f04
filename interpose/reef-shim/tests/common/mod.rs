//! Driver functions, looked up in a library: the fake driver, or the shim before it.

#![allow(dead_code, unreachable_pub)] // each test uses a part

pub mod graph;

use crate::common; // `call!` names it
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The fake device's.
pub const UUID: [u8; 16] = *b"fake device no 0";
/// Longer than anything takes on a busy machine.
pub const SOON: Duration = Duration::from_secs(60);

/// Returns the path of a library of this workspace.
pub fn library(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folders = program.ancestors().skip(1).take(2);
    let files = folders.flat_map(|folder| [folder.join(name), folder.join("deps").join(name)]);
    let tried: Vec<_> = files.collect();
    let file = tried.iter().find(|file| file.is_file());
    file.unwrap_or_else(|| panic!("no {name} (tried {tried:?})")).clone()
}

pub const SHIM: &str = "libreef_cuda_shim.so";
pub const FAKE: &str = "libfake_libcuda.so";

/// A copy of the fake driver that shares nothing with others.
pub fn fake_copy(name: &str) -> PathBuf {
    let copy = std::env::temp_dir().join(format!("{name}-{}.so", std::process::id()));
    std::fs::copy(library(FAKE), &copy).unwrap();
    copy
}

/// An open library.
#[derive(Clone, Copy, Debug)]
pub struct Driver(usize);

/// Calls a function of the driver by its name: all arguments are words.
macro_rules! call {
    ($driver:expr, $name:ident($($arg:expr),*)) => {{
        let at = $driver.symbol(stringify!($name)).expect(stringify!($name));
        // SAFETY: each argument is passed as the word that the function wants there.
        unsafe {
            let call: unsafe extern "C" fn($(common::word!($arg)),*) -> u32 = std::mem::transmute(at);
            call($($arg as usize),*)
        }
    }};
}

macro_rules! word {
    ($arg:expr) => {
        usize
    };
}

#[allow(unused_imports)]
pub(crate) use {call, word};

impl Driver {
    pub fn open(path: &Path) -> Self {
        let name = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: libraries of ours.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{path:?}: {}", error());
        Self(handle as usize)
    }

    /// Opens the shim, and makes the first context current.
    pub fn begin() -> Self {
        let driver = Self::open(&library(SHIM));
        assert_eq!((call!(driver, cuInit(0)), call!(driver, cuCtxSetCurrent(1))), (0, 0));
        driver
    }

    /// Closes it once; others may have it open.
    pub fn close(&self) {
        // SAFETY: a handle of `dlopen`.
        unsafe { libc::dlclose(self.0 as *mut c_void) };
    }

    pub fn symbol(&self, name: &str) -> Option<usize> {
        let name = CString::new(name).unwrap();
        // SAFETY: a handle that is never closed.
        let at = unsafe { libc::dlsym(self.0 as *mut c_void, name.as_ptr()) };
        (!at.is_null()).then_some(at as usize)
    }
}

fn error() -> String {
    // SAFETY: a string of the loader's, or null.
    let text: *const c_char = unsafe { libc::dlerror() };
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, so a string of the loader's that ends with a zero and stays until this
    // thread's next call of the loader.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

type Launch = unsafe extern "C" fn(
    usize,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    usize,
    *const *const u64,
    usize,
) -> u32;

/// A driver's function that launches.
#[derive(Clone, Copy, Debug)]
pub struct Launcher(Launch);

impl Launcher {
    /// Launches a kernel of the fake driver's.
    pub fn launch(self, kernel: usize, stream: usize, to: usize, value: u64) -> u32 {
        let to = to as u64;
        let params = [&raw const to, &raw const value];
        // SAFETY: the function's arguments; those of the kernel are read during the call.
        unsafe { (self.0)(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params.as_ptr(), 0) }
    }
}

impl Driver {
    /// This function, which is `cuLaunchKernel` or its variant.
    pub fn launcher(&self, name: &str) -> Launcher {
        let at = self.symbol(name).unwrap();
        // SAFETY: both have these arguments.
        Launcher(unsafe { std::mem::transmute::<usize, Launch>(at) })
    }

    /// Launches a kernel of the fake driver's, by this function or its variant.
    pub fn launch(&self, name: &str, kernel: usize, stream: usize, to: usize, value: u64) -> u32 {
        self.launcher(name).launch(kernel, stream, to, value)
    }
}

/// Kernels that a program launches, its stream, and its memory.
pub struct Work {
    pub stream: usize,
    pub memory: usize,
    pub mix: usize,
}

impl Driver {
    /// A stream, memory and a kernel; there is a context.
    pub fn work(&self, bytes: usize) -> Work {
        let [mut stream, mut memory, mut mix] = [0_usize; 3];
        assert_eq!(call!(self, cuStreamCreate(&raw mut stream, 1)), 0);
        assert_eq!(call!(self, cuMemAlloc_v2(&raw mut memory, bytes)), 0);
        assert_eq!(call!(self, cuModuleGetFunction(&raw mut mix, 0, c"mix".as_ptr())), 0);
        Work { stream, memory, mix }
    }
}

/// Waits until something is so, and says how long it took.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < SOON, "{what}: not within {SOON:?}");
        std::thread::sleep(Duration::from_micros(50)); // sleep: poll of a condition
    }
    begin.elapsed()
}

/// Waits until the fake device has looked twice for something that may run, and found nothing: all
/// that it has waits for a gate.
pub fn until_at_rest() {
    let fake = Driver::open(&library(FAKE));
    let progress = || {
        let mut progress = [0_u64; 2];
        assert_eq!(call!(fake, reef_fake_progress(&raw mut progress)), 0);
        progress
    };
    let mut before = progress();
    until("the device rests", || {
        let [ran, rests] = progress();
        if ran != before[0] {
            before = [ran, rests];
        }
        rests >= before[1] + 2
    });
}
