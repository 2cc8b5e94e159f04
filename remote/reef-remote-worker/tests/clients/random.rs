//! Random programs of three threads and four streams, on the fake driver directly, and through the
//! client's library, a socket (also one that breaks again and again) and a worker: they leave the
//! same memory and the same return codes.
//!
//! `REEF_TEST_CASES=500 cargo test -p reef-remote-worker --test clients random` runs more of them;
//! `REEF_TEST_SEED` says with which number they begin.

use crate::alone::wait_for_turn;
use crate::common::{self, Driver, call, fake_copy};
use crate::program::{Program, Step, program};
use crate::proxy;
use crate::support;
use crate::thread::{Thread, Words};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Longer than any of these programs takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);
/// Words of the device that a program has.
const WORDS: usize = 13;

/// Each thread's return codes, the device's words, and the host's.
type Outcome = (Vec<Vec<u32>>, Vec<u64>, Vec<u64>);

fn run(driver: Driver, program: &Program, what: &str) -> Outcome {
    let (end, outcome) = channel();
    let program = program.clone();
    std::thread::spawn(move || end.send(run_here(driver, &program)));
    let outcome = outcome.recv_timeout(LIMIT);
    outcome.unwrap_or_else(|why| panic!("{what}: no end within {LIMIT:?}: {why}"))
}

fn run_here(driver: Driver, program: &Program) -> Outcome {
    let (mut context, mut memory) = (0_usize, 0_usize);
    assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, 0)), 0);
    assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
    assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut memory, WORDS * 8)), 0);
    assert_eq!(call!(driver, cuMemsetD8_v2(memory, 0, WORDS * 8)), 0);
    assert_eq!(call!(driver, cuCtxSynchronize()), 0);
    // The first words by a copy that waits, the others by one that does not.
    let begin: [u64; WORDS] = std::array::from_fn(|at| 1 + 0x0101_0101 * at as u64);
    let (first, others) = begin.split_at(WORDS / 2);
    let bytes = [size_of_val(first), size_of_val(others)];
    assert_eq!(call!(driver, cuMemcpyHtoD_v2(memory, first.as_ptr(), bytes[0])), 0);
    let to = memory + bytes[0];
    assert_eq!(call!(driver, cuMemcpyHtoDAsync_v2(to, others.as_ptr(), bytes[1], 0_usize)), 0);
    assert_eq!(call!(driver, cuCtxSynchronize()), 0);
    let mut host = [0_u64; 6];
    let host_words = host.as_mut_ptr() as usize;
    let word = |at: usize| memory + 8 * at;
    let codes = std::thread::scope(|scope| {
        let run = |(number, steps): (usize, &'_ Vec<Step>)| {
            let of = [word(4 * number), word(4 * number + 1)];
            let (copy, own) = (word(4 * number + 2), word(4 * number + 3));
            let host = [host_words + 16 * number, host_words + 16 * number + 8];
            let words = Words { of, copy, own, sum: word(12), host, context };
            let steps = steps.clone();
            scope.spawn(move || Thread::new(driver, number, words).run(&steps))
        };
        let threads: Vec<_> = program.iter().enumerate().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut left = vec![0_u64; WORDS];
    assert_eq!(call!(driver, cuMemcpyDtoH_v2(left.as_mut_ptr(), memory, WORDS * 8)), 0);
    assert_eq!(call!(driver, cuMemFree_v2(memory)), 0);
    assert_eq!(call!(driver, cuDevicePrimaryCtxRelease_v2(0)), 0);
    (codes, left, host.to_vec())
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

/// The program without calls that fail, whose codes a quiet call does not return.
fn without_failures(program: &Program) -> Program {
    let is_well = |step: &&Step| !matches!(step, Step::BrokenCapture { .. });
    program.each_ref().map(|steps| steps.iter().filter(is_well).copied().collect())
}

/// Opens a copy of the client's library, and begins its session.
fn remote(name: &str, address: &str, is_strict: bool) -> Driver {
    let driver = support::client(name);
    // SAFETY: one test at a time reads or writes the environment.
    unsafe {
        std::env::set_var("REEF_REMOTE", address);
        std::env::set_var("REEF_REMOTE_STRICT", if is_strict { "1" } else { "0" });
    }
    assert_eq!(call!(driver, cuInit(0)), 0);
    driver
}

#[test]
fn a_program_does_the_same_here_and_elsewhere() {
    let _one = wait_for_turn();
    let copy = fake_copy("reef-b0-random");
    let plain = Driver::open(&copy);
    assert_eq!(call!(plain, cuInit(0)), 0);
    let unix = support::serve(&support::socket("random"));
    let tcp = support::serve_torn("127.0.0.1:0");
    let strict = remote("strict", &unix, true);
    // The first connection lasts until the session has begun, the others for a short while.
    let torn = proxy::Proxy::start(&tcp, |connection| {
        (connection > 0).then_some(1_500 + (connection as u64 * 7_919) % 20_011)
    });
    let quiet = [
        remote("unix", &unix, false),
        remote("tcp", &tcp, false),
        remote("torn", &format!("127.0.0.1:{}", torn.port), false),
    ];
    torn.cut();
    for seed in seeds(12) {
        let (program, what) = (program(seed), format!("REEF_TEST_SEED={seed}"));
        let expected = run(plain, &program, &format!("{what}, plainly"));
        let got = run(strict, &program, &format!("{what}, strict"));
        assert_eq!(got, expected, "{what}, strict: {program:?}");
        let program = without_failures(&program);
        let expected = run(plain, &program, &format!("{what}, plainly"));
        for (driver, way) in quiet.into_iter().zip(["unix", "tcp", "torn"]) {
            let got = run(driver, &program, &format!("{what}, {way}"));
            assert_eq!(got, expected, "{what}, {way}: {program:?}");
        }
    }
    assert!(torn.breaks() > 3 && torn.connections() > 3, "{} breaks", torn.breaks());
    assert!(torn.last_hello().len() < 30_000);
    std::fs::remove_file(copy).unwrap();
}
