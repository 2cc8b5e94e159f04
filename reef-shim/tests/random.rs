//! Random programs of three threads and four streams, plainly on the fake driver and under the shim: best-effort, open
//! or held at random. Both end, with the same memory and the same return codes.
//!
//! `PROPTEST_CASES=500 cargo test -p reef-shim --test random` runs more of them.

mod common;

use common::{Driver, FAKE, SHIM, UUID, call, fake_copy, library};
use proptest::prelude::*;
use reef_guest::registry::Registry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// One call of a program, or a few that belong together. Streams are the thread's own two.
#[derive(Clone, Copy, Debug)]
enum Step {
    Launch {
        stream: usize,
        value: u64,
        twin: bool,
    },
    /// Adds to a word that all threads have.
    Add {
        stream: usize,
        value: u64,
    },
    /// An event recorded in one stream, and waited for in the other, whose word then takes up the first's.
    Join {
        from: usize,
    },
    Synchronize {
        stream: usize,
    },
    SynchronizeAll,
    Copy {
        stream: usize,
    },
    Fill {
        stream: usize,
        value: u8,
    },
    /// A capture of so many launches, launched as a graph twice.
    Graph {
        stream: usize,
        launches: u64,
    },
    /// A launch while it is forbidden: what it breaks is the same.
    BrokenCapture {
        stream: usize,
    },
    NewStream {
        stream: usize,
    },
    Wrong,
}

fn step() -> impl Strategy<Value = Step> {
    let stream = 0..2_usize;
    let launch = (stream.clone(), any::<u64>(), any::<bool>());
    prop_oneof![
        8 => launch.prop_map(|(stream, value, twin)| Step::Launch { stream, value, twin }),
        2 => (stream.clone(), any::<u64>()).prop_map(|(stream, value)| Step::Add { stream, value }),
        2 => stream.clone().prop_map(|from| Step::Join { from }),
        1 => stream.clone().prop_map(|stream| Step::Synchronize { stream }),
        1 => Just(Step::SynchronizeAll),
        1 => stream.clone().prop_map(|stream| Step::Copy { stream }),
        1 => (stream.clone(), any::<u8>()).prop_map(|(stream, value)| Step::Fill { stream, value }),
        1 => (stream.clone(), 1..120_u64)
            .prop_map(|(stream, launches)| Step::Graph { stream, launches }),
        1 => stream.clone().prop_map(|stream| Step::BrokenCapture { stream }),
        1 => stream.prop_map(|stream| Step::NewStream { stream }),
        1 => Just(Step::Wrong),
    ]
}

/// A thread's streams and words.
struct Thread<'a> {
    driver: Driver,
    streams: [usize; 2],
    /// A word for each stream, one for copies, and, of all threads, one for sums.
    words: &'a [usize; 4],
    event: usize,
    mix: usize,
    add: usize,
    join: usize,
    codes: Vec<u32>,
}

impl<'a> Thread<'a> {
    fn new(driver: Driver, number: usize, words: &'a [usize; 4]) -> Self {
        call!(driver, cuCtxSetCurrent(1));
        let kernel = |name: &std::ffi::CStr| {
            let mut kernel = 0_usize;
            assert_eq!(call!(driver, cuModuleGetFunction(&raw mut kernel, 0, name.as_ptr())), 0);
            kernel
        };
        let stream = || {
            let mut stream = 0_usize;
            assert_eq!(call!(driver, cuStreamCreate(&raw mut stream, number % 2)), 0);
            stream
        };
        let mut event = 0_usize;
        assert_eq!(call!(driver, cuEventCreate(&raw mut event, 0)), 0);
        // The third thread works on its own default stream, too: four explicit streams in all.
        let streams = if number == 2 { [2, 2] } else { [stream(), stream()] };
        let [mix, add, join] = [c"mix", c"add", c"join"].map(kernel);
        Self { driver, streams, words, event, mix, add, join, codes: Vec::new() }
    }

    fn run(mut self, steps: &[Step]) -> Vec<u32> {
        steps.iter().for_each(|&step| self.step(step));
        self.codes.push(call!(self.driver, cuCtxSynchronize()));
        self.codes
    }

    fn note(&mut self, code: u32) {
        self.codes.push(code);
    }

    fn launch(&mut self, kernel: usize, stream: usize, word: usize, value: u64) {
        let (on, to) = (self.streams[stream], self.words[word]);
        let code = self.driver.launch("cuLaunchKernel", kernel, on, to, value);
        self.note(code);
    }

    fn step(&mut self, step: Step) {
        let driver = self.driver;
        match step {
            Step::Launch { stream, value, twin } => {
                let name = if twin { "cuLaunchKernel_ptsz" } else { "cuLaunchKernel" };
                let (on, to) = (self.streams[stream], self.words[stream]);
                let code = driver.launch(name, self.mix, on, to, value);
                self.note(code);
            }
            Step::Add { stream, value } => self.launch(self.add, stream, 3, value),
            Step::Join { from } => {
                let (first, second) = (self.streams[from], self.streams[1 - from]);
                self.note(call!(driver, cuEventRecord(self.event, first)));
                self.note(call!(driver, cuStreamWaitEvent(second, self.event, 0)));
                self.launch(self.join, 1 - from, 1 - from, self.words[from] as u64);
                // The first goes on only then: what the other read is what was there.
                self.note(call!(driver, cuStreamSynchronize(second)));
            }
            Step::Synchronize { stream } => {
                self.note(call!(driver, cuStreamSynchronize(self.streams[stream])));
            }
            Step::SynchronizeAll => self.note(call!(driver, cuCtxSynchronize())),
            Step::Copy { stream } => {
                let (on, from, to) = (self.streams[stream], self.words[stream], self.words[2]);
                self.note(call!(driver, cuStreamSynchronize(self.streams[1 - stream])));
                self.note(call!(driver, cuMemcpyDtoDAsync_v2(to, from, 8, on)));
                self.note(call!(driver, cuStreamSynchronize(on)));
            }
            Step::Fill { stream, value } => {
                let (on, to) = (self.streams[stream], self.words[stream]);
                self.note(call!(driver, cuMemsetD8Async(to, value, 8, on)));
            }
            Step::Graph { stream, launches } => self.graph(stream, launches),
            Step::BrokenCapture { stream } => {
                let (on, mut graph) = (self.streams[stream], 7_usize);
                self.note(call!(driver, cuStreamBeginCapture_v2(on, 2)));
                self.launch(self.mix, stream, stream, 1);
                self.note(call!(driver, cuStreamSynchronize(on)));
                self.launch(self.mix, stream, stream, 2);
                self.note(call!(driver, cuStreamEndCapture(on, &raw mut graph)));
                self.codes.push(graph as u32);
            }
            Step::NewStream { stream } if self.streams[stream] > 2 => {
                let mut new = 0_usize;
                self.note(call!(driver, cuStreamDestroy_v2(self.streams[stream])));
                self.note(call!(driver, cuStreamCreate(&raw mut new, 1)));
                self.streams[stream] = new;
            }
            Step::NewStream { .. } => {}
            Step::Wrong => {
                let code = driver.launch("cuLaunchKernel", 1, self.streams[0], self.words[0], 1);
                self.note(code);
                self.note(call!(driver, cuStreamSynchronize(0x7777_0000_usize)));
            }
        }
    }

    fn graph(&mut self, stream: usize, launches: u64) {
        let (driver, on) = (self.driver, self.streams[stream]);
        let (mut graph, mut exec) = (0_usize, 0_usize);
        self.note(call!(driver, cuStreamBeginCapture_v2(on, 2)));
        (0..launches).for_each(|value| self.launch(self.mix, stream, stream, value));
        self.note(call!(driver, cuStreamEndCapture(on, &raw mut graph)));
        self.note(call!(driver, cuGraphInstantiateWithFlags(&raw mut exec, graph, 0)));
        self.note(call!(driver, cuGraphLaunch(exec, on)));
        self.note(call!(driver, cuGraphLaunch(exec, on)));
        self.note(call!(driver, cuGraphDestroy(graph)));
        self.note(call!(driver, cuStreamSynchronize(on)));
        self.note(call!(driver, cuGraphExecDestroy(exec)));
    }
}

/// Runs a program: each thread's return codes, and the words that are left.
fn run(driver: Driver, program: &[Vec<Step>; 3]) -> (Vec<Vec<u32>>, Vec<u64>) {
    call!(driver, cuCtxSetCurrent(1));
    let mut memory = 0_usize;
    assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut memory, 10 * 8)), 0);
    let words = |thread: usize| [0, 1, 2, 9 - 3 * thread].map(|at| memory + 8 * (3 * thread + at));
    let words = [0, 1, 2].map(words);
    let codes = std::thread::scope(|scope| {
        let run = |(number, steps): (usize, &'_ Vec<Step>)| {
            let (words, steps) = (&words[number], steps.clone());
            scope.spawn(move || Thread::new(driver, number, words).run(&steps))
        };
        let threads: Vec<_> = program.iter().enumerate().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // SAFETY: ten words of the fake driver's, on which nothing works any more.
    let left = unsafe { std::slice::from_raw_parts(memory as *const u64, 10) }.to_vec();
    assert_eq!(call!(driver, cuMemFree_v2(memory)), 0);
    (codes, left)
}

/// A driver as it is, one under the shim, and who holds the latter.
struct Both {
    plain: Driver,
    shim: Driver,
    registry: Registry,
}

fn both() -> &'static Both {
    static BOTH: OnceLock<Both> = OnceLock::new();
    BOTH.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("reef-random-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let registry = Registry::open(&path, Box::new(|_, wish| Ok(wish.class))).unwrap();
        // SAFETY: the tests of this file wait for each other, so no other thread reads the environment.
        unsafe {
            std::env::set_var("REEF_GUESTS", &path);
            std::env::set_var("REEF_CUDA", library(FAKE));
            std::env::set_var("REEF_FAKE_QUEUE", "200");
        }
        let plain = Driver::open(&fake_copy("reef-random"));
        let shim = Driver::open(&library(SHIM));
        assert_eq!((call!(plain, cuInit(0)), call!(shim, cuInit(0))), (0, 0));
        Both { plain, shim, registry }
    })
}

/// Holds and releases the guest until the work has ended.
fn held_at_random<T>(registry: &Registry, mut seed: u64, work: impl FnOnce() -> T) -> T {
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                for is_held in [true, false] {
                    registry.hold(UUID, is_held);
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    std::thread::sleep(Duration::from_micros((seed >> 33) % 2_000));
                }
            }
        });
        let result = work();
        has_ended.store(true, Ordering::Relaxed);
        result
    })
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn settings() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases = asked.unwrap_or(24);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(settings())]

    #[test]
    fn a_program_does_the_same_plainly_open_and_held(
        program in prop::array::uniform3(prop::collection::vec(step(), 0..30)),
        seed: u64,
    ) {
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let both = both();
        let plain = run(both.plain, &program);
        prop_assert_eq!(&run(both.shim, &program), &plain, "open");
        let held = held_at_random(&both.registry, seed, || run(both.shim, &program));
        prop_assert_eq!(&held, &plain, "held at random");
    }
}

/// The property is worth something only if gates were there.
#[test]
fn gates_stand_in_streams_and_graphs() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let both = both();
    let steps = vec![Step::Graph { stream: 0, launches: 119 }; 3];
    let program = [steps.clone(), steps, vec![]];
    held_at_random(&both.registry, 1, || run(both.shim, &program));
    let guests = both.registry.guests();
    assert!(guests.iter().any(|guest| guest.gates >= 24), "{guests:?}");
}
