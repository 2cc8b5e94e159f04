//! Streams, their priorities and queues, and the device in two parts.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "all calls alike: handles are open, and what was taken is given back once, after its last use"
)]

use crate::bench::Bench;
use reef_core::{Error, Priority};
use reef_gpu::{LaunchConfig, Memory, Modules, Options, Streams, Vendor};
use reef_hip::Context;
use std::collections::BTreeSet;
use std::time::Duration;

#[test]
fn the_device_says_what_it_is() {
    let Some(bench) = Bench::open() else { return };
    let facts = bench.context.facts();
    assert!(facts.name.contains("MI50"), "{facts:?}");
    assert_eq!((facts.units, facts.threads_per_unit), (60, 2560));
    assert_eq!((facts.registers_per_unit, facts.shared_per_unit), (65536, 65536));
    assert_eq!(facts.features[0], "gfx906:sramecc+:xnack-");
    assert!(facts.features.contains(&"CU masks".to_string()), "{facts:?}");
    assert_eq!(reef_hip::devices().unwrap().len(), 1);
    let error = Context::open(1, &Options::default()).unwrap_err();
    assert_eq!(error, Error::NotFound("no device hip:1 (1 found)".into()));
}

#[test]
fn real_time_work_runs_while_every_best_effort_queue_is_taken() {
    let Some(bench) = Bench::open() else { return };
    let held: Vec<_> = (0..6).map(|_| bench.stream(Priority::BestEffort)).collect();
    let spinning: Vec<_> = held.iter().map(|stream| bench.spin(*stream)).collect();
    let stream = bench.stream(Priority::RealTime);
    let word = bench.context.alloc(4).unwrap();
    bench.launch(stream, "bump", vec![word, 3]);
    assert!(bench.ends(stream));
    assert_eq!(bench.read(word), 3);
    assert!(held.iter().all(|stream| !bench.is_idle(*stream)));
    spinning.iter().for_each(|spinning| spinning.end());
    assert!(held.iter().all(|stream| bench.ends(*stream)));
}

/// Expects this number of six streams of a class to end by themselves: on a busy machine some take
/// longer than the first wait.
#[track_caller]
fn end_alone(bench: &Bench, class: Priority, wanted: usize) {
    let mut counts = Vec::new();
    for millis in [300, 3000, 20_000] {
        counts.push(streams_that_end_alone(bench, class, Duration::from_millis(millis)));
        if counts.last() == Some(&wanted) {
            return;
        }
    }
    panic!("{counts:?} of six ended alone, {wanted} wanted");
}

/// Number of six streams of a class that end within this time of being told to, each before those
/// that were opened earlier.
fn streams_that_end_alone(bench: &Bench, class: Priority, time: Duration) -> usize {
    let streams: Vec<_> = (0..6).map(|_| bench.stream(class)).collect();
    let spinning: Vec<_> = streams.iter().map(|stream| bench.spin(*stream)).collect();
    // From the last to the first: one that shares a queue with an earlier one can't end before it.
    let ended_alone = streams.iter().zip(&spinning).rev().filter(|(stream, spinning)| {
        spinning.end();
        bench.ends_within(**stream, time)
    });
    let count = ended_alone.count();
    assert!(streams.iter().all(|stream| bench.ends(*stream)));
    count
}

/// AMD's runtime behaves as the module's documentation says.
#[test]
fn some_of_more_than_four_real_time_streams_take_turns() {
    let Some(bench) = Bench::open() else { return };
    if std::env::var_os("GPU_MAX_HW_QUEUES").is_some() {
        return reef_conformance::skip("GPU_MAX_HW_QUEUES is set");
    }
    end_alone(&bench, Priority::RealTime, 4); // those that were first in their queues
}

#[test]
fn each_best_effort_stream_has_a_hardware_queue_of_its_own() {
    let Some(bench) = Bench::open() else { return };
    end_alone(&bench, Priority::BestEffort, 6);
}

/// Units on which the blocks of a wide kernel ran.
fn units_of(bench: &Bench, class: Priority) -> BTreeSet<u32> {
    let (function, stream) = (bench.function("empty"), bench.stream(class));
    bench.software.forget_trace();
    // SAFETY: it has no parameters.
    unsafe {
        bench.context.launch(
            stream,
            function,
            &LaunchConfig { grid: [2000, 1, 1], ..LaunchConfig::one_block(64) },
            &mut [],
        )
    }
    .unwrap();
    // SAFETY: the stream is open.
    unsafe { bench.context.wait(stream) }.unwrap();
    let trace = bench.software.trace();
    let ran = trace.iter().filter(|block| block.groups == [2000, 1, 1]);
    ran.map(|block| block.unit).collect()
}

#[test]
fn best_effort_work_leaves_one_unit_alone() {
    let Some(bench) = Bench::open() else { return };
    assert_eq!(units_of(&bench, Priority::BestEffort), (0..59).collect());
    assert_eq!(units_of(&bench, Priority::RealTime), (0..60).collect());
}

#[test]
fn streams_of_the_two_parts_run_on_their_own_units() {
    let Some(bench) = Bench::open_with(&Options::parse("hip", "split=20").unwrap()) else {
        return;
    };
    let function = bench.function("empty");
    for (class, units) in [(Priority::RealTime, 0..20), (Priority::BestEffort, 20..60)] {
        let stream = bench.stream(class);
        bench.software.forget_trace();
        // SAFETY: it has no parameters.
        unsafe {
            bench.context.launch(
                stream,
                function,
                &LaunchConfig { grid: [200, 1, 1], ..LaunchConfig::one_block(64) },
                &mut [],
            )
        }
        .unwrap();
        unsafe { bench.context.wait(stream) }.unwrap();
        let trace = bench.software.trace();
        let ran = trace.iter().filter(|block| block.groups == [200, 1, 1]);
        let on: std::collections::BTreeSet<_> = ran.map(|block| block.unit).collect();
        assert!(on.len() > 1 && on.iter().all(|unit| units.contains(unit)), "{class:?} on {on:?}");
    }
}

#[test]
fn a_part_that_leaves_nothing_is_refused() {
    let Some(_bench) = Bench::open() else { return };
    let error = Context::open(0, &Options::parse("hip", "split=60").unwrap()).unwrap_err();
    let why = "must be less than the device's 60 units, got 60";
    assert_eq!(error, Error::invalid("hip option split", why));
}
