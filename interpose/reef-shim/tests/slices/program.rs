//! The program: kernels in PTX, a stream, memory, and the daemon that holds it.

use crate::common::{self, Driver, FAKE, SHIM, UUID, call, library, until};
use reef_guest::page::Class;
use reef_guest::registry::Registry;
use std::ffi::{CString, c_char};
use std::process::Command;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

pub(crate) const PTX: &str = include_str!("kernels.ptx");
/// Duration of a block.
const BLOCK: Duration = Duration::from_micros(20);
/// Threads of a block, and its shared memory, of which four fit into a unit.
const THREADS: u32 = 32;
pub(crate) const SHARED: u32 = 57_000;
/// Blocks that run at a time, on the four units of the fake device.
pub(crate) const WAVE: usize = 16;
/// Words of the program's memory.
const WORDS: usize = 4096;

/// Grid and blocks of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
}

impl Shape {
    /// A line of blocks, whose last slice is shorter.
    pub(crate) fn line() -> Self {
        Self { grid: [301, 1, 1], block: [THREADS, 1, 1] }
    }

    /// Lines, planes and spaces, long and short in each dimension.
    pub(crate) fn all() -> Vec<Self> {
        let grids = [[301, 1, 1], [8, 37, 1], [150, 2, 1], [4, 4, 20], [1, 1, 260], [1, 290, 1]];
        grids.map(|grid| Self { grid, block: [THREADS, 1, 1] }).to_vec()
    }

    pub(crate) fn blocks(&self) -> usize {
        self.grid.iter().product::<u32>() as usize
    }
}

/// The memory that launches of `tiles` with these values leave.
pub(crate) fn expected(shape: &Shape, values: &[u32]) -> Vec<u32> {
    let word = |at: u32| {
        values
            .iter()
            .fold(0_u32, |word, value| word.wrapping_mul(31).wrapping_add(*value).wrapping_add(at))
    };
    (0..shape.blocks() as u32).map(word).collect()
}

/// A word after `count` launches, without what the number of its block has added.
pub(crate) fn without_number(at: usize, word: u32, count: u32) -> u32 {
    let factor = (0..count).fold(0_u32, |sum, _| sum.wrapping_mul(31).wrapping_add(1));
    word.wrapping_sub(factor.wrapping_mul(at as u32))
}

pub(crate) struct Program {
    pub(crate) driver: Driver,
    registry: Registry,
    module: usize,
    pub(crate) stream: usize,
    pub(crate) at: usize,
    shape: Mutex<Shape>,
}

static PROGRAM: Mutex<Option<&'static Program>> = Mutex::new(None);
static ONE: Mutex<()> = Mutex::new(());

/// The program, for one test at a time.
pub(crate) struct Held(&'static Program, #[allow(dead_code)] MutexGuard<'static, ()>);

impl std::ops::Deref for Held {
    type Target = Program;

    fn deref(&self) -> &Program {
        self.0
    }
}

pub(crate) fn program() -> Held {
    let one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut program = PROGRAM.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let program = *program.get_or_insert_with(|| Box::leak(Box::new(begin())));
    call!(program.driver, cuCtxSetCurrent(1));
    Held(program, one)
}

fn begin() -> Program {
    let name = |what: &str| std::env::temp_dir().join(format!("{what}-{}", std::process::id()));
    let path = name("reef-slices");
    let _ = std::fs::remove_file(&path);
    let registry = Registry::open(&path, Box::new(|_, wish| Ok(wish.class))).unwrap();
    // SAFETY: no other thread reads the environment: all tests wait for the lock.
    unsafe {
        std::env::set_var("REEF_GUESTS", &path);
        std::env::set_var("REEF_CLASS", "be");
        std::env::set_var("REEF_SLICES", super::SLICES);
        std::env::set_var("REEF_CUDA", library(FAKE));
        if std::env::var_os("REEF_FAKE_BLOCK_NS").is_none() {
            std::env::set_var("REEF_FAKE_BLOCK_NS", BLOCK.as_nanos().to_string());
        }
        std::env::set_var("REEF_FAKE_LOAD_NS", "20000000");
        if super::SLICES != "no-stops" {
            std::env::set_var("REEF_FAKE_LOCK", "1");
        }
    }
    let driver = Driver::open(&library(SHIM));
    let [mut context, mut stream, mut at] = [0_usize; 3];
    assert_eq!(call!(driver, cuInit(0)), 0);
    assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, 0)), 0);
    assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
    assert_eq!(call!(driver, cuStreamCreate(&raw mut stream, 1)), 0);
    assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut at, 4 * WORDS)), 0);
    let shape = Mutex::new(Shape::line());
    let mut program = Program { driver, registry, module: 0, stream, at, shape };
    program.module = program.load();
    program
}

/// Runs a test of this file in a process of its own, with these variables.
#[allow(dead_code)] // files call one of the two
pub(crate) fn run_alone(test: &str, variables: &[(&str, &str)]) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "--include-ignored", test]).envs(variables.iter().copied());
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(" 1 passed;"), "{said}{errors}");
}

/// Runs a test of this file in a process of its own, and returns the library's report of it.
#[allow(dead_code)]
pub(crate) fn report_of(test: &str, variables: &[(&str, &str)]) -> String {
    let name = format!("reef-{test}-{}", std::process::id());
    let report = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&report);
    let path = report.to_str().expect("a folder in UTF-8");
    run_alone(test, &[variables, &[("REEF_EXPLAIN", path)]].concat());
    let text = std::fs::read_to_string(&report).unwrap();
    std::fs::remove_file(report).unwrap();
    text
}

impl Program {
    pub(crate) fn load(&self) -> usize {
        let (mut module, text) = (0_usize, CString::new(PTX).unwrap());
        assert_eq!(call!(self.driver, cuModuleLoadData(&raw mut module, text.as_ptr())), 0);
        module
    }

    pub(crate) fn kernel(&self, name: &str) -> usize {
        self.kernel_of(self.module, name)
    }

    /// Looks a kernel up in a module.
    pub(crate) fn kernel_of(&self, module: usize, name: &str) -> usize {
        let (mut kernel, name) = (0_usize, CString::new(name).unwrap());
        let name: *const c_char = name.as_ptr();
        assert_eq!(call!(self.driver, cuModuleGetFunction(&raw mut kernel, module, name)), 0);
        kernel
    }

    /// Makes another context current. Returns it, and its stream, memory and kernel `tiles`.
    pub(crate) fn other_context(&self) -> [usize; 4] {
        let [mut context, mut stream, mut at] = [0_usize; 3];
        assert_eq!(call!(self.driver, cuCtxCreate_v2(&raw mut context, 0, 0)), 0);
        assert_eq!(call!(self.driver, cuStreamCreate(&raw mut stream, 1)), 0);
        assert_eq!(call!(self.driver, cuMemAlloc_v2(&raw mut at, 4096)), 0);
        [context, stream, at, self.kernel_of(self.load(), "tiles")]
    }

    /// Calls so far with what has ended.
    pub(crate) fn misuses(&self) -> u64 {
        let (fake, mut misuses) = (Driver::open(&library(FAKE)), 0_u64);
        assert_eq!(call!(fake, reef_fake_misuses(&raw mut misuses)), 0);
        misuses
    }

    /// Has the driver refuse calls that set a node of an executable graph: 1 is the next one.
    pub(crate) fn refuse_sets(&self, first: u64, count: u64) {
        assert_eq!(call!(Driver::open(&library(FAKE)), reef_fake_refuse_sets(first, count)), 0);
    }

    /// Launches a kernel with the memory and a value.
    pub(crate) fn launch(&self, kernel: usize, shape: &Shape, value: u32) -> u32 {
        *self.shape.lock().unwrap() = *shape;
        self.launch_on(self.stream, self.at, kernel, shape, value)
    }

    /// Launches a kernel on a stream, with memory and a value.
    pub(crate) fn launch_on(
        &self,
        stream: usize,
        at: usize,
        kernel: usize,
        shape: &Shape,
        value: u32,
    ) -> u32 {
        let ([x, y, z], [width, height, depth]) = (shape.grid, shape.block);
        let params = [(&raw const at).cast::<u8>(), (&raw const value).cast::<u8>()];
        call!(
            self.driver,
            cuLaunchKernel(
                kernel,
                x,
                y,
                z,
                width,
                height,
                depth,
                SHARED,
                stream,
                params.as_ptr(),
                0
            )
        )
    }

    /// Launches a kernel whose blocks may wait for each other.
    pub(crate) fn launch_cooperative(&self, kernel: usize, shape: &Shape, value: u32) -> u32 {
        let ([x, y, z], [width, height, depth]) = (shape.grid, shape.block);
        let params = [(&raw const self.at).cast::<u8>(), (&raw const value).cast::<u8>()];
        call!(
            self.driver,
            cuLaunchCooperativeKernel(
                kernel,
                x,
                y,
                z,
                width,
                height,
                depth,
                SHARED,
                self.stream,
                params.as_ptr()
            )
        )
    }

    /// Launches many short kernels, so that gates stand 16 launches apart.
    pub(crate) fn hurry(&self) {
        let (mix, word) = (self.kernel("mix"), self.at + 4 * (WORDS - 2));
        let launcher = self.driver.launcher("cuLaunchKernel");
        for _ in 0..40 {
            (0..64).for_each(|value| assert_eq!(launcher.launch(mix, self.stream, word, value), 0));
            self.synchronize();
        }
    }

    /// Launches a kernel until its way is decided, as after a hold.
    pub(crate) fn learn(&self, kernel: usize, shape: &Shape) {
        self.hold(true);
        assert_eq!(self.launch(kernel, shape, 0), 0);
        self.hold(false);
        self.synchronize();
        for _ in 0..8 {
            assert_eq!(self.launch(kernel, shape, 0), 0);
            self.synchronize();
            // sleep: time to compile a variant; `learn_slices` waits for one
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Launches a kernel until it is sliced, and its slices have been measured.
    pub(crate) fn learn_slices(&self, kernel: usize, shape: &Shape) {
        self.learn(kernel, shape);
        until("sliced", || {
            let sliced = self.sliced();
            assert_eq!(self.launch(kernel, shape, 0), 0);
            self.synchronize();
            self.sliced() > sliced
        });
        for _ in 0..4 {
            assert_eq!(self.launch(kernel, shape, 0), 0);
            self.synchronize();
        }
    }

    pub(crate) fn hold(&self, is_held: bool) {
        self.registry.hold(UUID, is_held);
    }

    pub(crate) fn synchronize(&self) {
        assert_eq!(call!(self.driver, cuStreamSynchronize(self.stream)), 0);
    }

    pub(crate) fn clear(&self) {
        self.synchronize();
        // SAFETY: memory of the fake driver, on which nothing works.
        unsafe { std::ptr::write_bytes(self.at as *mut u32, 0, WORDS) };
    }

    /// Has `memory` return as many words as a launch of this shape writes.
    pub(crate) fn inspect(&self, shape: &Shape) {
        *self.shape.lock().unwrap() = *shape;
    }

    /// The words of the last launch's blocks.
    pub(crate) fn memory(&self) -> Vec<u32> {
        let count = self.shape.lock().unwrap().blocks();
        // SAFETY: memory of the fake driver, which writes whole words.
        (0..count).map(|at| unsafe { (self.at as *const u32).add(at).read_volatile() }).collect()
    }

    /// Launches in slices so far.
    pub(crate) fn sliced(&self) -> u64 {
        let guests = self.registry.guests();
        guests.iter().map(|guest| guest.sliced).sum()
    }

    /// Starvation reliefs so far. A thread of this program that stands still for a second while it
    /// holds meets one, in which what is held runs.
    pub(crate) fn reliefs(&self) -> u64 {
        let guests = self.registry.guests();
        guests.iter().map(|guest| guest.starvation_reliefs).sum()
    }

    /// Gates so far.
    pub(crate) fn gates(&self) -> u64 {
        let guests = self.registry.guests();
        let be = guests.iter().find(|guest| guest.who.class == Class::BestEffort);
        be.map_or(0, |guest| guest.gates)
    }
}
