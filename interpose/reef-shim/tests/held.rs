//! A best-effort program on the fake driver, under the shim: counted, held and released.

mod common;
#[path = "held/graphs.rs"]
mod graphs;

use common::{Driver, FAKE, SHIM, SOON, UUID, call, library, until, until_at_rest};
use reef_guest::join::{JoinRequest, Joined, join};
use reef_guest::page::Class;
use reef_guest::registry::{Registry, Rules};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// A program with a stream and a word of memory, in this process. There is one shim, so there is
/// one of these.
struct Program {
    driver: Driver,
    registry: Registry,
    path: PathBuf,
    stream: usize,
    memory: usize,
    mix: usize,
}

static PROGRAM: Mutex<Option<Program>> = Mutex::new(None);

fn program() -> std::sync::MutexGuard<'static, Option<Program>> {
    let mut program = PROGRAM.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    program.get_or_insert_with(begin);
    if let Some(program) = program.as_ref() {
        call!(program.driver, cuCtxSetCurrent(1));
    }
    program
}

fn begin() -> Program {
    let path = std::env::temp_dir().join(format!("reef-held-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    // A hold makes no progress here, and lasts although a thread stands still.
    let rules = Rules { hold_timeout: 2 * SOON, ..Rules::default() };
    let registry = Registry::open_with(&path, rules, Box::new(|_, wish| Ok(wish.class))).unwrap();
    // SAFETY: no other thread reads the environment: all tests wait for the lock.
    unsafe {
        std::env::set_var("REEF_GUESTS", &path);
        std::env::set_var("REEF_CLASS", "be");
        std::env::set_var("REEF_CUDA", library(FAKE));
    }
    let driver = Driver::open(&library(SHIM));
    let [mut context, mut stream, mut memory, mut module, mut mix] = [0_usize; 5];
    assert_eq!(call!(driver, cuInit(0)), 0);
    assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, 0)), 0);
    assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
    assert_eq!(call!(driver, cuStreamCreate(&raw mut stream, 1)), 0);
    assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut memory, 64)), 0);
    assert_eq!(call!(driver, cuModuleLoadData(&raw mut module, 0)), 0);
    assert_eq!(call!(driver, cuModuleGetFunction(&raw mut mix, module, c"mix".as_ptr())), 0);
    let program = Program { driver, registry, path, stream, memory, mix };
    until("it has joined", || {
        assert_eq!(program.launch(0), 0); // it passes a daemon that is late
        program.synchronize();
        program.counts().0 > 0
    });
    program
}

impl Program {
    fn launch(&self, value: u64) -> u32 {
        self.driver.launch("cuLaunchKernel", self.mix, self.stream, self.memory, value)
    }

    fn query(&self) -> u32 {
        call!(self.driver, cuStreamQuery(self.stream))
    }

    fn synchronize(&self) {
        assert_eq!(call!(self.driver, cuStreamSynchronize(self.stream)), 0);
    }

    fn value(&self) -> u64 {
        // SAFETY: memory of the fake driver, which has come to its end.
        unsafe { (self.memory as *const u64).read() }
    }

    /// The number of kernels that were counted, and of those that were delayed.
    fn counts(&self) -> (u64, u64) {
        let guests = self.registry.guests();
        let be = guests.iter().find(|guest| guest.who.class == Class::BestEffort);
        be.map_or((0, 0), |guest| (guest.kernels, guest.delayed))
    }

    /// Starvation reliefs so far. A thread of this program that stands still for a second while it
    /// holds meets one, in which what is held runs.
    fn reliefs(&self) -> u64 {
        self.registry.guests().iter().map(|guest| guest.starvation_reliefs).sum()
    }

    fn real_time(&self) -> Joined {
        join(&self.path, &JoinRequest { class: Class::RealTime, device: UUID }, SOON).unwrap()
    }
}

fn mixed(start: u64, values: impl IntoIterator<Item = u64>) -> u64 {
    let mix = |x: u64, value| x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(value);
    values.into_iter().fold(start, mix)
}

#[test]
fn launches_without_a_holder_are_counted_and_run_in_order() {
    let program = program();
    let program = program.as_ref().unwrap();
    let (kernels, before) = (program.counts().0, program.value());
    (0..100).for_each(|value| assert_eq!(program.launch(value), 0));
    program.synchronize();
    assert_eq!(program.value(), mixed(before, 0..100));
    assert_eq!(program.counts().0 - kernels, 100);
}

#[test]
fn a_held_program_does_nothing_and_goes_on_where_it_stood() {
    let program = program();
    let program = program.as_ref().unwrap();
    assert_eq!(program.launch(7), 0);
    program.synchronize();
    until("a hold without a starvation relief", || {
        let (before, delayed) = (program.value(), program.counts().1);
        let reliefs = program.reliefs();
        program.registry.hold(UUID, true);
        (0..20).for_each(|value| assert_eq!(program.launch(value), 0));
        until_at_rest();
        let at_rest = (program.value(), program.query());
        program.registry.hold(UUID, false);
        program.synchronize();
        assert_eq!(program.value(), mixed(before, 0..20));
        let is_relieved = program.reliefs() != reliefs;
        let delayed = program.counts().1 - delayed;
        assert!(is_relieved || (at_rest, delayed) == ((before, 600), 20), "{at_rest:?} {delayed}");
        !is_relieved
    });
}

#[test]
fn dead_real_time_guest_leaves_no_gate_closed() {
    let program = program();
    let program = program.as_ref().unwrap();
    assert_eq!(program.launch(0), 0);
    program.synchronize();
    let rt = program.real_time();
    assert!(rt.page.activity.launch() && rt.page.activity.hold());
    until("held", || {
        let before = program.query();
        assert_eq!((before, program.launch(1)), (0, 0));
        until_at_rest();
        program.query() == 600
    });
    drop(rt);
    until("the end", || program.query() == 0);
}

#[test]
fn thread_far_ahead_waits_outside_the_driver() {
    let program = program();
    let program = program.as_ref().unwrap();
    program.synchronize();
    let reliefs = program.reliefs();
    program.registry.hold(UUID, true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            call!(program.driver, cuCtxSetCurrent(1));
            (0..2000).for_each(|value| assert_eq!(program.launch(value), 0));
        });
        // sleep: time in which it would go too far; none fails a right library
        std::thread::sleep(Duration::from_millis(30));
        let mut free = 0_usize;
        assert_eq!(call!(program.driver, cuStreamCreate(&raw mut free, 1)), 0, "not locked");
        assert!(program.counts().1 < 1000 || program.reliefs() > reliefs);
        program.registry.hold(UUID, false);
    });
    program.synchronize();
}

/// Another thread names another stream while a launch waits in the library.
#[test]
fn launch_goes_to_the_stream_for_which_it_has_waited() {
    let program = program();
    let program = program.as_ref().unwrap();
    let (driver, mut other, is_over) = (program.driver, 0_usize, AtomicBool::new(false));
    assert_eq!(call!(driver, cuStreamCreate(&raw mut other, 1)), 0);
    program.synchronize();
    let (before, delayed, word) = (program.value(), program.counts().1, program.memory + 32);
    assert_eq!(call!(driver, cuStreamWaitValue32_v2(other, word, 1, 1)), 0);
    let sides: usize = 1 << 32 | 1;
    let config = || [sides, sides, sides, 0, program.stream, 0, 0].map(AtomicUsize::new);
    let configs: Vec<_> = (0..80).map(|_| config()).collect();
    program.registry.hold(UUID, true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            call!(driver, cuCtxSetCurrent(1));
            for (value, config) in configs.iter().enumerate() {
                let (to, value) = (program.memory as u64, value as u64);
                let params = [&raw const to, &raw const value];
                let (config, params) = (config.as_ptr(), params.as_ptr());
                assert_eq!(call!(driver, cuLaunchKernelEx(config, program.mix, params, 0)), 0);
            }
            is_over.store(true, SeqCst);
        });
        // The 65th one is too far ahead.
        until("a launch waits", || program.counts().1 >= delayed + 65 || is_over.load(SeqCst));
        configs[64][4].store(other, SeqCst);
        program.registry.hold(UUID, false);
    });
    program.synchronize();
    let value = program.value();
    // SAFETY: a word of the fake driver's memory, which its device reads atomically.
    unsafe { &*(word as *const AtomicU32) }.store(1, SeqCst);
    assert_eq!(call!(driver, cuStreamSynchronize(other)), 0);
    assert_eq!(call!(driver, cuStreamDestroy_v2(other)), 0);
    assert_eq!(value, mixed(before, 0..80));
}
