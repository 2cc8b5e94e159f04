//! Device code that goes wrong: AMD's runtime comes back, the reason is known, the process lives.
//!
//! AMD's own reaction would be to end the process. Instead, what a queue in error still has fails,
//! and so does what it gets later; other queues go on.

mod support;

use parking_lot::MutexGuard;
use reef_gfx906::{Outcome, Settings};
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::{Bench, Buffer, Function, Module, Pinned, lock_bench};

const SOURCE: &str = include_str!("kernels/faults.hip");
const SETTINGS: Settings =
    Settings { units: 4, workers: 2, seed: 0, step_budget: 1 << 36, slice: 256, trace: 1000 };

fn faulty(step_budget: u64) -> Option<(MutexGuard<'static, ()>, &'static Bench)> {
    lock_bench(Settings { step_budget, ..SETTINGS })
}

fn kernel(bench: &'static Bench, name: &str) -> Function {
    static MODULE: std::sync::OnceLock<Module<'static>> = std::sync::OnceLock::new();
    MODULE.get_or_init(|| bench.hip.compile(SOURCE)).function(name)
}

/// The device still runs kernels.
fn assert_alive(bench: &'static Bench) {
    let word = Buffer::<u32>::zeros(&bench.hip, 1);
    let stream = bench.hip.masked_stream(&[0xf]);
    bench.hip.launch(kernel(bench, "store"), [1, 1, 1], [64, 1, 1], stream, &[&word.at(), &42u32]);
    bench.hip.synchronize(stream);
    assert_eq!(word.read(), [42]);
    bench.hip.destroy(stream);
}

#[test]
fn an_endless_kernel_ends_in_an_error() {
    for name in ["endless", "sleeper"] {
        let Some((_turn, bench)) = faulty(200_000) else { return };
        let hip = &bench.hip;
        let faults = bench.software.counters().faults;
        let word = Pinned::new(hip, 1);
        // A queue of its own, so that no other test meets the one in error.
        let stream = hip.masked_stream(&[0xf]);
        hip.launch(kernel(bench, name), [3, 1, 1], [64, 1, 1], stream, &[&word.at()]);
        hip.synchronize(stream);
        assert_eq!(bench.software.counters().faults, faults + 1);
        let fault = bench.software.last_fault();
        assert!(fault.contains("more than 200000 steps"), "{fault}");
        let trace = bench.software.trace();
        assert!(trace.iter().any(|record| record.outcome == Outcome::Faulted));
        assert_eq!(bench.software.counters().resident, 0);
        assert_alive(bench);
        hip.destroy(stream);
    }
}

#[test]
fn unmapped_address_is_an_error_with_the_instruction() {
    let Some((_turn, bench)) = faulty(SETTINGS.step_budget) else { return };
    let hip = &bench.hip;
    let stream = hip.masked_stream(&[0xf]);
    let nowhere = 0x7000_0000_1234_0000 as *mut std::ffi::c_void;
    hip.launch(kernel(bench, "store"), [1, 1, 1], [64, 1, 1], stream, &[&nowhere, &1u32]);
    hip.synchronize(stream);
    let fault = bench.software.last_fault();
    assert!(fault.contains("store_dword") && fault.contains("70000000"), "{fault}");
    assert_alive(bench);
    hip.destroy(stream);
}

#[test]
fn a_trap_is_an_error() {
    let Some((_turn, bench)) = faulty(SETTINGS.step_budget) else { return };
    let stream = bench.hip.masked_stream(&[0xf]);
    bench.hip.launch(kernel(bench, "trap"), [1, 1, 1], [64, 1, 1], stream, &[]);
    bench.hip.synchronize(stream);
    let fault = bench.software.last_fault();
    assert!(fault.contains("s_trap"), "{fault}");
    assert_alive(bench);
    bench.hip.destroy(stream);
}

#[test]
fn a_kernel_that_polls_leaves_the_host_its_processor_time() {
    let Some((_turn, bench)) = faulty(SETTINGS.step_budget) else { return };
    let hip = &bench.hip;
    let word = Pinned::new(hip, 1);
    let stream = hip.masked_stream(&[0xf]);
    hip.launch(kernel(bench, "sleeper"), [1, 1, 1], [64, 1, 1], stream, &[&word.at()]);
    // The host's clock is read before and after the counts: where this thread stands still between
    // the two, it measures too much time, and never too little.
    let begin = Instant::now();
    let before = bench.software.counters().steps;
    sleep(Duration::from_millis(200)); // sleep: the time that is measured
    let steps = bench.software.counters().steps - before;
    let seconds = begin.elapsed().as_secs_f64();
    word.set(0, 1);
    hip.synchronize(stream);
    assert!((steps as f64) < 1e6 * seconds, "{steps} instructions in {seconds} s");
    hip.destroy(stream);
}
