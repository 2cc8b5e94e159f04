//! Random programs of three threads and four streams, plainly on the fake driver and under the
//! shim: best-effort, open or held at random, and real-time; in this process, in others, and in
//! children of these. All end, with the same memory and the same return codes.
//!
//! `REEF_TEST_CASES=500 cargo test -p reef-shim --test random` runs more of them; `REEF_TEST_SEED`
//! says with which number they begin.

mod common;
#[path = "random/graphs.rs"]
mod graphs;
#[path = "random/processes.rs"]
mod processes;
#[path = "random/program.rs"]
mod program;
#[path = "random/thread.rs"]
mod thread;

use common::{Driver, FAKE, SHIM, UUID, call, fake_copy, library};
use program::{Program, Step, program};
use reef_guest::registry::Registry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use thread::{Thread, Words};

/// Longer than any of these programs takes, held, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Each thread's return codes, and the words that are left.
type Outcome = (Vec<Vec<u32>>, Vec<u64>);

/// Runs a program, for so long at most.
fn run(driver: Driver, program: &Program, what: &str) -> Outcome {
    let (end, outcome) = channel();
    let program = program.clone();
    std::thread::spawn(move || end.send(run_here(driver, &program)));
    let outcome = outcome.recv_timeout(LIMIT);
    outcome.unwrap_or_else(|why| panic!("{what}: no end within {LIMIT:?}: {why}"))
}

fn run_here(driver: Driver, program: &Program) -> Outcome {
    call!(driver, cuCtxSetCurrent(1));
    let mut memory = 0_usize;
    assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut memory, 13 * 8)), 0);
    let word = |at: usize| memory + 8 * at;
    let codes = std::thread::scope(|scope| {
        let run = |(number, steps): (usize, &'_ Vec<Step>)| {
            let of = [word(4 * number), word(4 * number + 1)];
            let (copy, own) = (word(4 * number + 2), word(4 * number + 3));
            let words = Words { of, copy, own, sum: word(12), host: of, context: 1 };
            let steps = steps.clone();
            scope.spawn(move || Thread::new(driver, number, words).run(&steps))
        };
        let threads: Vec<_> = program.iter().enumerate().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // SAFETY: words of the fake driver's, on which nothing works any more.
    let left = unsafe { std::slice::from_raw_parts(memory as *const u64, 13) }.to_vec();
    assert_eq!(call!(driver, cuMemFree_v2(memory)), 0);
    (codes, left)
}

/// Plain driver, driver under the shim, and the daemon of the latter.
struct Drivers {
    plain: Driver,
    shim: Driver,
    registry: Registry,
}

fn drivers() -> &'static Drivers {
    static DRIVERS: OnceLock<Drivers> = OnceLock::new();
    DRIVERS.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("reef-random-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let registry = Registry::open(&path, Box::new(|_, wish| Ok(wish.class))).unwrap();
        // SAFETY: the tests of this file wait for each other, so no other thread reads the
        // environment.
        unsafe {
            std::env::set_var("REEF_GUESTS", &path);
            std::env::set_var("REEF_CUDA", library(FAKE));
            std::env::set_var("REEF_FAKE_QUEUE", "200");
        }
        let copy = fake_copy("reef-random");
        let plain = Driver::open(&copy);
        std::fs::remove_file(copy).unwrap(); // the open library keeps it
        let shim = Driver::open(&library(SHIM));
        assert_eq!((call!(plain, cuInit(0)), call!(shim, cuInit(0))), (0, 0));
        Drivers { plain, shim, registry }
    })
}

/// Holds and releases the guests until the work has ended.
fn held_at_random<T>(registry: &Registry, mut seed: u64, work: impl FnOnce() -> T) -> T {
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                for is_held in [true, false] {
                    registry.hold(UUID, is_held);
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    // sleep: any length is right
                    std::thread::sleep(Duration::from_micros((seed >> 33) % 2_000));
                }
            }
        });
        let _end = End(&has_ended); // if the work panics, too
        work()
    })
}

fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns the numbers of the programs.
fn seeds(cases: u64) -> impl Iterator<Item = u64> {
    let asked = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_nanos() as u64);
    let (first, cases) =
        (asked("REEF_TEST_SEED").unwrap_or(now), asked("REEF_TEST_CASES").unwrap_or(cases));
    println!("REEF_TEST_SEED={first}: {cases} programs");
    (0..cases).map(move |case| first.wrapping_add(case))
}

#[test]
fn a_program_does_the_same_plainly_open_and_held() {
    let _one = one_at_a_time();
    let both = drivers();
    for seed in seeds(16) {
        let (program, what) = (program(seed), format!("REEF_TEST_SEED={seed}"));
        let plain = run(both.plain, &program, &format!("{what}, plainly"));
        let open = run(both.shim, &program, &format!("{what}, open"));
        assert_eq!(open, plain, "{what}, open: {program:?}");
        let held = || run(both.shim, &program, &format!("{what}, held"));
        let held = held_at_random(&both.registry, seed, held);
        assert_eq!(held, plain, "{what}, held at random: {program:?}");
    }
}

/// The property is worth something only if gates were there.
#[test]
fn gates_stand_in_streams_and_graphs() {
    let _one = one_at_a_time();
    let both = drivers();
    let steps = vec![Step::Graph { stream: 0, launches: 149 }; 3];
    let program = [steps.clone(), steps, vec![]];
    held_at_random(&both.registry, 1, || run(both.shim, &program, "gates"));
    let guests = both.registry.guests();
    assert!(guests.iter().any(|guest| guest.gates >= 24), "{guests:?}");
}
