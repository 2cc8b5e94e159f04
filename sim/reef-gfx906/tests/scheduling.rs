//! Units and order of workgroups, on AMD's runtime over a small device whose seed decides.

mod support;

use parking_lot::MutexGuard;
use reef_gfx906::{Outcome, Record, Settings};
use std::collections::BTreeSet;
use support::{Bench, Buffer, Function, Module, NOT_READY, Stream, lock_bench};

const SOURCE: &str = include_str!("kernels/scheduling.hip");
const UNITS: u32 = 8;

fn small() -> Option<(MutexGuard<'static, ()>, &'static Bench)> {
    let settings = Settings { units: UNITS, workers: 0, seed: 7, slice: 64, ..Settings::default() };
    let small = lock_bench(settings)?;
    assert_eq!(small.1.software.last_fault(), "");
    Some(small)
}

fn kernel(bench: &'static Bench, name: &str) -> Function {
    static MODULE: std::sync::OnceLock<Module<'static>> = std::sync::OnceLock::new();
    MODULE.get_or_init(|| bench.hip.compile(SOURCE)).function(name)
}

/// Records of the launch with this number of workgroups.
fn of_grid(bench: &Bench, groups: u32) -> Vec<Record> {
    let trace = bench.software.trace();
    trace.into_iter().filter(|record| record.groups == [groups, 1, 1]).collect()
}

fn units(records: &[Record]) -> BTreeSet<u32> {
    records.iter().map(|record| record.unit).collect()
}

#[test]
fn blocks_that_wait_for_each_other_all_run() {
    let Some((_turn, bench)) = small() else { return };
    let hip = &bench.hip;
    let arrived = Buffer::<u32>::zeros(hip, 1);
    // 8 units with room for 10 workgroups of 4 waves each.
    let blocks = UNITS * 10;
    let arguments: [&dyn support::Argument; 2] = [&arrived.at(), &5u32];
    hip.launch(kernel(bench, "meet"), [blocks, 1, 1], [256, 1, 1], Stream::NULL, &arguments);
    assert_eq!(arrived.read(), [5 * blocks]);
    let records = of_grid(bench, blocks);
    assert_eq!(records.len(), blocks as usize);
    let last_start = records.iter().map(|record| record.start).max();
    assert!(records.iter().all(|record| Some(record.end) > last_start), "all at once");
}

#[test]
fn kernels_of_two_streams_wait_for_each_other() {
    let Some((_turn, bench)) = small() else { return };
    let hip = &bench.hip;
    let word = Buffer::<u32>::zeros(hip, 1);
    let (first, second) = (hip.stream(0), hip.stream(0));
    hip.launch(kernel(bench, "wait"), [4, 1, 1], [64, 1, 1], first, &[&word.at()]);
    assert_eq!(hip.query(first), NOT_READY);
    hip.launch(kernel(bench, "raise"), [1, 1, 1], [1, 1, 1], second, &[&word.at()]);
    hip.synchronize(first);
    hip.synchronize(second);
    hip.destroy(first);
    hip.destroy(second);
}

#[test]
fn a_mask_keeps_a_stream_on_its_units() {
    let Some((_turn, bench)) = small() else { return };
    let hip = &bench.hip;
    let count = Buffer::<u32>::zeros(hip, 1);
    let (masked, rest) = (hip.masked_stream(&[0b0000_0110]), hip.masked_stream(&[0b1111_1001]));
    let work = kernel(bench, "work");
    hip.launch(work, [301, 1, 1], [64, 1, 1], masked, &[&count.at(), &50u32]);
    hip.launch(work, [302, 1, 1], [64, 1, 1], rest, &[&count.at(), &50u32]);
    hip.synchronize(masked);
    hip.synchronize(rest);
    assert_eq!(count.read(), [603 * 64]);
    assert_eq!(units(&of_grid(bench, 301)), BTreeSet::from([1, 2]));
    assert_eq!(units(&of_grid(bench, 302)), BTreeSet::from([0, 3, 4, 5, 6, 7]));
    hip.destroy(masked);
    hip.destroy(rest);
}

#[test]
fn high_priority_goes_before_what_was_launched_earlier() {
    let Some((_turn, bench)) = small() else { return };
    let hip = &bench.hip;
    let count = Buffer::<u32>::zeros(hip, 1);
    let (low, high) = (hip.stream(1), hip.stream(-1));
    let work = kernel(bench, "work");
    // Twice as many as fit.
    let groups = 2 * UNITS * 10 + 1;
    for stream in [low, high] {
        hip.launch(work, [1, 1, 1], [64, 1, 1], stream, &[&count.at(), &1u32]);
        hip.synchronize(stream);
    }
    bench.software.hold(true);
    hip.launch(work, [groups, 1, 1], [256, 1, 1], low, &[&count.at(), &200u32]);
    hip.launch(work, [groups + 1, 1, 1], [256, 1, 1], high, &[&count.at(), &200u32]);
    bench.software.hold(false);
    hip.synchronize(high);
    hip.synchronize(low);
    let (low_records, high_records) = (of_grid(bench, groups), of_grid(bench, groups + 1));
    assert_eq!((low_records.len(), high_records.len()), (groups as usize, groups as usize + 1));
    assert!(low_records[0].priority < high_records[0].priority);
    let last_high = high_records.iter().map(|record| record.start).max();
    let early = low_records.iter().filter(|record| Some(record.start) < last_high).count();
    assert_eq!(
        early, 0,
        "workgroups of low priority were placed while some of high priority waited"
    );
    hip.destroy(low);
    hip.destroy(high);
}

#[test]
fn launches_of_one_stream_run_one_after_the_other() {
    let Some((_turn, bench)) = small() else { return };
    let hip = &bench.hip;
    let count = Buffer::<u32>::zeros(hip, 1);
    let stream = hip.stream(0);
    for groups in 11..16 {
        hip.launch(
            kernel(bench, "work"),
            [groups, 1, 1],
            [64, 1, 1],
            stream,
            &[&count.at(), &9u32],
        );
    }
    hip.synchronize(stream);
    let launches: Vec<Vec<Record>> = (11..16).map(|groups| of_grid(bench, groups)).collect();
    for pair in launches.windows(2) {
        let end = pair[0].iter().map(|record| record.end).max();
        assert!(pair[1].iter().all(|record| Some(record.start) >= end));
    }
    assert!(launches.iter().flatten().all(|record| record.outcome == Outcome::Ended));
    hip.destroy(stream);
}

#[test]
fn each_block_runs_once_and_takes_its_own_turn() {
    let Some((_turn, bench)) = small() else { return };
    let hip = &bench.hip;
    let (ticket, tickets) = (Buffer::<u32>::zeros(hip, 1), Buffer::<u32>::zeros(hip, 500));
    let arguments: [&dyn support::Argument; 2] = [&ticket.at(), &tickets.at()];
    hip.launch(kernel(bench, "order"), [500, 1, 1], [64, 1, 1], Stream::NULL, &arguments);
    let mut tickets = tickets.read();
    assert!(tickets.windows(2).any(|pair| pair[0] > pair[1]), "the seed mixes the order");
    tickets.sort_unstable();
    assert_eq!(tickets, (0..500).collect::<Vec<_>>());
}
