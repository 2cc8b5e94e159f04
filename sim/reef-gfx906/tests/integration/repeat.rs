//! Order of workgroups by a seed: it repeats from process to process.

use crate::support::{Buffer, Module, lock_bench};
use reef_gfx906::Settings;
use std::process::Command;

const SOURCE: &str = include_str!("../kernels/scheduling.hip");
const SEED: &str = "REEF_GFX906_TEST_SEED";

/// Runs in a process of its own; prints what ran where and when.
#[test]
#[ignore = "is run by the test below"]
fn child() {
    let Some(seed) = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()) else { return };
    let settings = Settings { units: 6, workers: 0, seed, slice: 100, ..Settings::default() };
    let Some((_turn, bench)) = lock_bench(settings) else { return };
    let hip = &bench.hip;
    let module: Module<'_> = hip.compile(SOURCE);
    let (work, meet) = (module.function("work"), module.function("meet"));
    let streams = [hip.stream(1), hip.stream(-1), hip.masked_stream(&[0b10_1010])];
    let words = Buffer::<u32>::zeros(hip, 8);
    for stream in streams {
        hip.launch(work, [1, 1, 1], [64, 1, 1], stream, &[&words.at(), &1u32]);
        hip.synchronize(stream);
    }
    bench.software.forget_trace();
    bench.software.hold(true);
    let arrived = words.at().wrapping_byte_add(4);
    hip.launch(work, [60, 1, 1], [128, 1, 1], streams[0], &[&words.at(), &40u32]);
    hip.launch(meet, [12, 1, 1], [128, 1, 1], streams[1], &[&arrived, &3u32]);
    hip.launch(work, [50, 1, 1], [64, 1, 1], streams[2], &[&words.at(), &60u32]);
    bench.software.hold(false);
    streams.iter().for_each(|stream| hip.synchronize(*stream));
    let first = bench.software.trace().first().map_or(0, |record| record.start);
    for record in bench.software.trace() {
        let (start, end) = (record.start - first, record.end - first);
        let [group, ..] = record.group;
        println!("ran {} {group} {} {start} {end} {}", record.queue, record.unit, record.steps);
    }
}

/// Runs the child and returns its lines; `None` where AMD's runtime is not installed.
fn trace(seed: u64) -> Option<Vec<String>> {
    let program = std::env::current_exe().expect("this test runs");
    let arguments = ["--ignored", "--exact", "repeat::child", "--nocapture"];
    let output = Command::new(program).args(arguments).env(SEED, seed.to_string()).output();
    let output = output.expect("a test can run itself");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let ran = text.lines().filter_map(|line| line.find("ran ").map(|at| line[at..].to_owned()));
    (!text.contains("skipped: ")).then(|| ran.collect())
}

#[test]
fn a_seed_gives_the_same_order_in_every_process() {
    let Some(first) = trace(11) else { return reef_conformance::skip("no libamdhip64") };
    assert_eq!(first.len(), 60 + 12 + 50);
    assert_eq!(trace(11).as_ref(), Some(&first));
    assert_ne!(trace(12).as_ref(), Some(&first));
}
