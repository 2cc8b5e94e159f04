//! A best-effort program with long kernels on the fake driver, under the shim with
//! `REEF_SLICES=no-stops`. The fake runs the PTX that it is given block by block, so a variant that
//! is wrong leaves other memory.

#![allow(clippy::disallowed_methods)] // of files that the tests have written
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;
#[allow(dead_code)] // the tests of graphs need more of it
#[path = "slices/program.rs"]
mod program;

use common::{call, until, until_at_rest};
use program::{Shape, WAVE, expected, program, report_of};
use std::sync::Barrier;
use std::time::Duration;

/// `REEF_SLICES` of the program.
const SLICES: &str = "no-stops";

#[test]
fn long_kernel_is_sliced_and_leaves_the_memory_of_the_whole() {
    let program = program();
    for shape in Shape::all() {
        let tiles = program.kernel("tiles");
        program.learn_slices(tiles, &shape);
        program.hurry();
        let (gates, sliced) = (program.gates(), program.sliced());
        program.clear();
        assert_eq!(program.launch(tiles, &shape, 7), 0);
        program.synchronize();
        assert_eq!(program.memory(), expected(&shape, &[7]), "{shape:?}");
        assert!(program.sliced() > sliced, "{shape:?}: the daemon sees it");
        let gates = program.gates() - gates;
        assert!(gates >= 15, "{shape:?}: {gates} gates, and each slice has one");
        // Once more on what is there: a block that ran twice, or not at all, is seen.
        assert_eq!(program.launch(tiles, &shape, 9), 0);
        program.synchronize();
        assert_eq!(program.memory(), expected(&shape, &[7, 9]), "{shape:?}");
    }
}

#[test]
fn real_time_work_starts_between_two_slices() {
    let program = program();
    let (shape, tiles) = (Shape::line(), program.kernel("tiles"));
    program.learn_slices(tiles, &shape);
    let blocks = shape.blocks();
    let mut stops: Vec<usize> = Vec::new();
    // Five, and more if this thread was late at all of them.
    while stops.len() < 5 || stops.len() < 20 && stops.iter().all(|at| *at == blocks) {
        program.clear();
        let reliefs = program.reliefs();
        assert_eq!(program.launch(tiles, &shape, 3), 0);
        let done = || program.memory().iter().filter(|word| **word != 0).count();
        until("some blocks ran", || done() > 0);
        program.hold(true);
        until_at_rest();
        let at = done();
        until_at_rest();
        let again = done();
        let is_relieved = program.reliefs() > reliefs;
        assert!(again == at || is_relieved, "held: no block runs");
        stops.push(if is_relieved { blocks } else { at });
        program.hold(false);
        program.synchronize();
        assert_eq!(program.memory(), expected(&shape, &[3]));
    }
    assert!(stops.iter().all(|at| at % WAVE == 0 || *at == blocks), "whole waves: {stops:?}");
    assert!(stops.iter().any(|at| *at > 0 && *at < blocks), "stopped after {stops:?} of {blocks}");
}

#[test]
fn uncertain_kernels_stay_whole() {
    let program = program();
    let shape = Shape::line();
    for name in ["waits", "numbered", "counted"] {
        let kernel = program.kernel(name);
        program.clear();
        program.learn(kernel, &shape);
        let gates = program.gates();
        assert_eq!(program.launch(kernel, &shape, 7), 0);
        program.synchronize();
        assert!(program.gates() - gates <= 1, "{name} has slices");
    }
    // A kernel whose blocks all run at a time.
    let few = Shape { grid: [WAVE as u32, 1, 1], ..shape };
    let tiles = program.kernel("tiles");
    program.learn(tiles, &few);
    let gates = program.gates();
    assert_eq!(program.launch(tiles, &few, 1), 0);
    program.synchronize();
    assert!(program.gates() - gates <= 1, "few blocks have slices");
}

#[test]
fn captured_or_cooperative_launch_is_not_sliced() {
    let program = program();
    let (shape, tiles) = (Shape::line(), program.kernel("tiles"));
    program.learn_slices(tiles, &shape);
    program.clear();
    let driver = program.driver;
    assert_eq!(call!(driver, cuStreamBeginCapture_v2(program.stream, 2)), 0);
    assert_eq!(program.launch(tiles, &shape, 5), 0);
    let mut graph = 0_usize;
    assert_eq!(call!(driver, cuStreamEndCapture(program.stream, &raw mut graph)), 0);
    let mut count = 0_usize;
    assert_eq!(call!(driver, cuGraphGetNodes(graph, 0, &raw mut count)), 0);
    assert!(count <= 2, "one kernel and at most one gate, not {count} nodes");
    assert_eq!(program.memory(), vec![0; shape.blocks()], "nothing ran");
    let gates = program.gates();
    assert_eq!(program.launch_cooperative(tiles, &shape, 5), 0);
    program.synchronize();
    assert!(program.gates() - gates <= 1, "a cooperative launch has slices");
    assert_eq!(program.memory(), expected(&shape, &[5]));
}

#[test]
fn kernel_of_an_unloaded_module_is_forgotten() {
    let program = program();
    let (shape, driver) = (Shape::line(), program.driver);
    let module = program.load();
    let tiles = program.kernel_of(module, "tiles");
    program.learn_slices(tiles, &shape);
    assert_eq!(call!(driver, cuModuleUnload(module)), 0);
    let again = program.kernel("tiles");
    program.learn_slices(again, &shape);
    program.clear();
    assert_eq!(program.launch(again, &shape, 2), 0);
    program.synchronize();
    assert_eq!(program.memory(), expected(&shape, &[2]));
}

#[test]
fn context_that_ends_while_a_variant_is_compiled_is_left() {
    let program = program();
    let (shape, driver) = (Shape::line(), program.driver);
    let before = program.misuses();
    for round in 0..8 {
        let [context, stream, at, tiles] = program.other_context();
        for hold in [true, false, false] {
            program.hold(hold);
            assert_eq!(program.launch_on(stream, at, tiles, &shape, 1), 0);
            program.hold(false);
            assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
        }
        // The variant is compiled for 20 ms from the last launch on, which took 6 ms.
        // sleep: any length is right
        std::thread::sleep(Duration::from_millis(2 * round));
        assert_eq!(call!(driver, cuCtxDestroy_v2(context)), 0);
    }
    assert_eq!(program.misuses(), before, "calls with what has ended");
    assert_eq!(call!(driver, cuCtxSetCurrent(1)), 0);
}

#[test]
fn nothing_gets_between_slices_from_another_thread() {
    let program = program();
    let (shape, tiles) = (Shape::line(), program.kernel("tiles"));
    program.learn_slices(tiles, &shape);
    for round in 0..20 {
        program.clear();
        let (start, here) = (Barrier::new(2), &program);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                call!(here.driver, cuCtxSetCurrent(1));
                start.wait();
                for value in 1..9 {
                    assert_eq!(here.launch_cooperative(tiles, &shape, value), 0);
                    std::thread::sleep(Duration::from_micros(10)); // sleep: pace of the launches
                }
            });
            start.wait();
            assert_eq!(here.launch(tiles, &shape, 100), 0);
        });
        program.synchronize();
        // Each block has the same values in the same order, so but for its number the same word.
        let words = program.memory();
        let word = |at: usize| program::without_number(at, words[at], 9);
        assert!(
            (0..words.len()).all(|at| word(at) == word(0)),
            "round {round}: a launch in others' slices"
        );
    }
}

#[test]
fn report_has_long_kernels_and_reasons() {
    let text = report_of("program_with_a_report", &[]);
    for (name, how) in [
        ("tiles", "launches in "),
        ("waits", "gates only: a loop waits for other blocks"),
        ("numbered", "gates only: it reads the number of its launch"),
        ("counted", "gates only: it uses variable counter of its module"),
    ] {
        let begin = format!("  long kernel {name}, 301x1x1 blocks, ");
        let line = text.lines().find(|line| line.starts_with(&begin));
        let line = line.unwrap_or_else(|| panic!("{name}: no line in {text}"));
        assert!(line.contains(how), "{line}");
    }
}

/// Each slice takes a millisecond of its own, so 20 of them take four times as long as the kernel.
#[test]
fn costly_slices_end_although_each_launch_is_held() {
    let text = report_of("program_whose_launches_are_held", &[("REEF_FAKE_KERNEL_NS", "1000000")]);
    let line = text.lines().find(|line| line.starts_with("  long kernel tiles, 301x1x1 blocks, "));
    let line = line.unwrap_or_else(|| panic!("no line in {text}"));
    assert!(line.contains("slices took ") && line.contains(" % longer"), "{line}");
}

#[test]
#[ignore = "a part of another test"]
fn program_whose_launches_are_held() {
    let program = program();
    let (shape, tiles) = (Shape::line(), program.kernel("tiles"));
    for _ in 0..30 {
        program.hold(true);
        assert_eq!(program.launch(tiles, &shape, 1), 0);
        std::thread::sleep(Duration::from_millis(2)); // sleep: length of the hold
        program.hold(false);
        program.synchronize();
    }
}

#[test]
#[ignore = "a part of the test of the report"]
fn program_with_a_report() {
    let program = program();
    for name in ["waits", "numbered", "counted"] {
        program.clear();
        program.learn(program.kernel(name), &Shape::line());
    }
    program.clear();
    program.learn_slices(program.kernel("tiles"), &Shape::line());
}
