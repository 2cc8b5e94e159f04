//! A best-effort program with long kernels in graphs, on the fake driver under the shim. The
//! kernels are nodes of graphs that were captured or built, and are cut into slices there.

use crate::common::{self, Driver, FAKE, call, library, until, until_at_rest};
use crate::nodes::{
    Call, capture, chain, destroy, destroy_exec, instantiate, launch, new_graph, nodes as nodes_of,
};
use crate::program::{self, Held, Program, Shape, WAVE, expected, program, report_of, run_alone};
use std::time::Duration;

/// The program, and `tiles` of a line once it is sliced outside of graphs.
pub(crate) fn learned() -> (Held, Call) {
    let program = program();
    let (kernel, shape) = (program.kernel("tiles"), Shape::line());
    program.learn_slices(kernel, &shape);
    program.clear();
    (program, Call { kernel, shape, value: 3 })
}

/// Launches a graph on cleared memory, holds it in its middle, and returns after how many blocks it
/// stood. Its first kernel has this shape.
fn stop(program: &Held, exec: usize, shape: &Shape) -> usize {
    program.clear();
    program.inspect(shape);
    launch(program, exec);
    let done = || program.memory().iter().filter(|word| **word != 0).count();
    until("some blocks ran", || done() > 10);
    let reliefs = program.reliefs();
    program.hold(true);
    until_at_rest();
    let at = done();
    let is_relieved = program.reliefs() > reliefs; // and runs, maybe
    program.hold(false);
    program.synchronize();
    if is_relieved { shape.blocks() } else { at }
}

/// Returns whether a graph whose kernels leave these values stops in the middle of its first one.
pub(crate) fn is_stopped(program: &Held, exec: usize, shape: &Shape, values: &[u32]) -> bool {
    let (mut stops, blocks): (Vec<usize>, _) = (Vec::new(), shape.blocks());
    // Three, and more if this thread was late at all of them.
    while stops.len() < 3 || stops.len() < 8 && stops.iter().all(|at| *at == blocks) {
        stops.push(stop(program, exec, shape));
        assert!(program.memory() == expected(shape, values), "{values:?} after {stops:?}");
    }
    assert!(stops.iter().all(|at| at % WAVE == 0 || *at == blocks), "whole waves: {stops:?}");
    stops.iter().any(|at| *at < blocks)
}

#[test]
fn captured_kernel_stops_between_two_slices() {
    let (program, tiles) = learned();
    let graph = capture(&program, &[tiles, Call { value: 9, ..tiles }]);
    assert!(nodes_of(&program, graph).len() <= 3, "the program's graph has its own nodes");
    let (exec, gates) = instantiate(&program, graph);
    destroy(&program, graph);
    assert!(gates >= 20, "{gates} gates, and each slice of two kernels has one");
    assert!(is_stopped(&program, exec, &tiles.shape, &[3, 9]));
    destroy_exec(&program, exec);
}

#[test]
fn node_that_was_built_stops_between_two_slices() {
    let (program, tiles) = learned();
    let (graph, nodes) = chain(&program, &[tiles, Call { value: 9, ..tiles }]);
    let (exec, gates) = instantiate(&program, graph);
    assert_eq!(nodes_of(&program, graph), nodes);
    assert!(gates >= 20, "{gates} gates");
    assert!(is_stopped(&program, exec, &tiles.shape, &[3, 9]));
    // Without a wave of its own, or unknown: whole.
    let few = Shape { grid: [WAVE as u32, 1, 1], ..tiles.shape };
    let other = chain(&program, &[Call { shape: few, ..tiles }]).0;
    assert_eq!(instantiate(&program, other).1, 0);
    destroy(&program, graph);
    destroy_exec(&program, exec);
}

#[test]
fn nodes_of_planes_and_spaces_run_each_block_once() {
    let (program, tiles) = learned();
    for shape in Shape::all() {
        program.learn_slices(tiles.kernel, &shape);
        let call = Call { shape, ..tiles };
        let graph = capture(&program, &[call, Call { value: 5, ..call }]);
        let (exec, gates) = instantiate(&program, graph);
        assert!(gates >= 12, "{shape:?}: {gates} gates");
        program.clear();
        program.inspect(&shape);
        launch(&program, exec);
        program.synchronize();
        assert!(program.memory() == expected(&shape, &[3, 5]), "{shape:?}");
        destroy(&program, graph);
        destroy_exec(&program, exec);
    }
}

#[test]
fn child_graph_has_slices_and_takes_other_values() {
    let (program, tiles) = learned();
    let driver = program.driver;
    let (graph, mut node) = (new_graph(&program), 0_usize);
    let (inner, _) = chain(&program, &[tiles]);
    assert_eq!(call!(driver, cuGraphAddChildGraphNode(&raw mut node, graph, 0, 0, inner)), 0);
    let last = Call { value: 9, ..tiles }.add(&program, graph, &[node]);
    let (exec, gates) = instantiate(&program, graph);
    assert!(gates >= 20, "{gates} gates");
    assert!(is_stopped(&program, exec, &tiles.shape, &[3, 9]));
    // Another graph of the same shape, with another value, and the node behind it.
    let (other, _) = chain(&program, &[Call { value: 4, ..tiles }]);
    let set = |inner| call!(driver, cuGraphExecChildGraphNodeSetParams(exec, node, inner));
    assert_eq!(set(other), 0);
    assert_eq!(Call { value: 8, ..tiles }.set(&program, exec, last), 0);
    assert!(is_stopped(&program, exec, &tiles.shape, &[4, 8]));
    // Another size: whole, and the program doesn't see how.
    let small = Shape { grid: [290, 1, 1], ..tiles.shape };
    let (third, _) = chain(&program, &[Call { shape: small, value: 6, ..tiles }]);
    assert_eq!(set(third), 0);
    assert_eq!(Call { shape: small, value: 7, ..tiles }.set(&program, exec, last), 0);
    assert!(!is_stopped(&program, exec, &small, &[6, 7]));
    let (long, _) = chain(&program, &[tiles, tiles]);
    assert_ne!(set(long), 0);
    assert_eq!(set(inner), 0);
    assert_eq!(Call { value: 8, ..tiles }.set(&program, exec, last), 0);
    assert!(is_stopped(&program, exec, &tiles.shape, &[3, 8]));
    destroy_exec(&program, exec);
}

/// The driver makes a child graph of what the executable graph was made from.
#[test]
fn captured_launch_of_a_graph_in_slices_keeps_them() {
    let (program, tiles) = learned();
    let (inner, _) = instantiate(&program, chain(&program, &[tiles]).0);
    let (driver, mut graph) = (program.driver, 0_usize);
    assert_eq!(call!(driver, cuStreamBeginCapture_v2(program.stream, 2)), 0);
    launch(&program, inner);
    assert_eq!(program.launch(tiles.kernel, &tiles.shape, 9), 0);
    assert_eq!(call!(driver, cuStreamEndCapture(program.stream, &raw mut graph)), 0);
    let (exec, gates) = instantiate(&program, graph);
    assert!(gates >= 10, "{gates} gates");
    destroy_exec(&program, inner);
    assert!(is_stopped(&program, exec, &tiles.shape, &[3, 9]));
    destroy_exec(&program, exec);
}

#[test]
fn kernel_with_attributes_or_overlap_stays_whole() {
    let (program, tiles) = learned();
    let driver = program.driver;
    // Cooperative; clusters; preferred clusters.
    for (attribute, words) in [(2_u32, [1_u64; 8]), (4, [2; 8]), (11, [2; 8])] {
        let (graph, nodes) = chain(&program, &[tiles]);
        let value = words.as_ptr();
        assert_eq!(call!(driver, cuGraphKernelNodeSetAttribute(nodes[0], attribute, value)), 0);
        let (exec, gates) = instantiate(&program, graph);
        assert_eq!(gates, 0, "attribute {attribute}");
        assert!(!is_stopped(&program, exec, &tiles.shape, &[3]));
        // After the instantiation an attribute changes nothing, and a priority never does.
        let (graph, nodes) = chain(&program, &[tiles]);
        let (exec, gates) = instantiate(&program, graph);
        assert_eq!(call!(driver, cuGraphKernelNodeSetAttribute(nodes[0], attribute, value)), 0);
        assert!(gates >= 10 && is_stopped(&program, exec, &tiles.shape, &[3]));
    }
    let (graph, nodes) = chain(&program, &[tiles]);
    let words = [1_u64; 8];
    assert_eq!(call!(driver, cuGraphKernelNodeSetAttribute(nodes[0], 8, words.as_ptr())), 0);
    assert!(instantiate(&program, graph).1 >= 10, "a priority");
    // The second may begin before the first has ended: neither is cut.
    let graph = new_graph(&program);
    let pair = [tiles.add(&program, graph, &[]), tiles.add(&program, graph, &[])];
    let data = 1_u64 << 16;
    let (from, to, data) = (&raw const pair[0], &raw const pair[1], &raw const data);
    assert_eq!(call!(driver, cuGraphAddDependencies_v2(graph, from, to, data, 1)), 0);
    assert_eq!(instantiate(&program, graph).1, 0);
}

#[test]
fn instantiation_waits_for_a_variant_that_is_being_built() {
    let program = program();
    let (kernel, shape) = (program.kernel_of(program.load(), "tiles"), Shape::line());
    for is_held in [true, false, false, false] {
        program.hold(is_held);
        assert_eq!(program.launch(kernel, &shape, 0), 0);
        program.hold(false);
        program.synchronize();
    }
    // Its variant is loaded for 20 ms from now on.
    let graph = capture(&program, &[Call { kernel, shape, value: 3 }]);
    let (exec, gates) = instantiate(&program, graph);
    assert!(gates >= 10, "{gates} gates");
    assert!(is_stopped(&program, exec, &shape, &[3]));
    destroy_exec(&program, exec);
}

/// As PyTorch's warm-ups: the host is ahead of the device.
#[test]
fn three_launches_without_waits_are_enough() {
    let program = program();
    let (kernel, shape) = (program.kernel_of(program.load(), "tiles"), Shape::line());
    program.hold(true);
    (0..3).for_each(|_| assert_eq!(program.launch(kernel, &shape, 0), 0));
    program.hold(false);
    program.synchronize();
    let (exec, gates) =
        instantiate(&program, chain(&program, &[Call { kernel, shape, value: 3 }]).0);
    assert!(gates >= 10, "{gates} gates");
    assert!(is_stopped(&program, exec, &shape, &[3]));
    destroy_exec(&program, exec);
}

#[test]
fn variant_outlives_the_module_and_the_source_graph() {
    let (program, _) = learned();
    let (driver, shape, module) = (program.driver, Shape::line(), program.load());
    let misuses = program.misuses();
    let call = Call { kernel: program.kernel_of(module, "tiles"), shape, value: 3 };
    program.learn_slices(call.kernel, &shape);
    let (graph, nodes) = chain(&program, &[call]);
    let (exec, _) = instantiate(&program, graph);
    destroy(&program, graph);
    assert_eq!(Call { value: 5, ..call }.set(&program, exec, nodes[0]), 0);
    assert!(is_stopped(&program, exec, &shape, &[5]));
    assert_eq!(call!(driver, cuModuleUnload(module)), 0);
    assert!(is_stopped(&program, exec, &shape, &[5]), "its variant is the context's");
    destroy_exec(&program, exec);
    let again = Call { kernel: program.kernel_of(program.load(), "tiles"), shape, value: 3 };
    program.learn_slices(again.kernel, &shape);
    let (exec, gates) = instantiate(&program, capture(&program, &[again]));
    assert!(gates >= 10 && is_stopped(&program, exec, &shape, &[3]));
    destroy_exec(&program, exec);
    assert_eq!(program.misuses(), misuses);
}

#[test]
fn whole_graph_with_the_handle_of_one_in_slices_is_updated() {
    let (program, tiles) = learned();
    let few = Shape { grid: [WAVE as u32, 1, 1], ..tiles.shape };
    let small = |value| chain(&program, &[Call { shape: few, value, ..tiles }]).0;
    let (ended, gates) = instantiate(&program, chain(&program, &[tiles]).0);
    assert!(gates >= 10, "{gates} gates");
    assert_eq!(call!(Driver::open(&library(FAKE)), reef_fake_end_exec(ended)), 0);
    let (exec, gates) = instantiate(&program, small(4));
    assert_eq!((exec, gates), (ended, 0));
    let (driver, mut result, other) = (program.driver, [7_usize; 3], small(5));
    assert_eq!(call!(driver, cuGraphExecUpdate_v2(exec, other, result.as_mut_ptr())), 0);
    program.clear();
    program.inspect(&few);
    launch(&program, exec);
    program.synchronize();
    assert!(program.memory() == expected(&few, &[5]));
    destroy_exec(&program, exec);
}

/// Loads the kernels as a library; returns that and its kernel `tiles`.
fn library_with_tiles(program: &Program) -> [usize; 2] {
    let driver = program.driver;
    let (mut library, mut kernel) = (0_usize, 0_usize);
    let text = std::ffi::CString::new(program::PTX).unwrap();
    let load = text.as_ptr();
    assert_eq!(call!(driver, cuLibraryLoadData(&raw mut library, load, 0, 0, 0, 0, 0, 0)), 0);
    let name = c"tiles".as_ptr();
    assert_eq!(call!(driver, cuLibraryGetKernel(&raw mut kernel, library, name)), 0);
    [library, kernel]
}

/// A thread may unload it while another one instantiates.
#[test]
fn kernel_that_no_node_has_is_not_asked_for() {
    let (program, tiles) = learned();
    let fake = Driver::open(&library(FAKE));
    let learn = |kernel| {
        program.hold(true);
        (0..3).for_each(|_| assert_eq!(program.launch(kernel, &tiles.shape, 0), 0));
        program.hold(false);
        program.synchronize();
    };
    let module = program.load();
    learn(program.kernel_of(module, "tiles"));
    let [library, kernel] = library_with_tiles(&program);
    learn(kernel);
    // The calls by which the library forgets them come too late.
    let misuses = program.misuses();
    assert_eq!(call!(fake, cuModuleUnload(module)), 0);
    assert_eq!(call!(fake, cuLibraryUnload(library)), 0);
    let (exec, gates) = instantiate(&program, chain(&program, &[tiles]).0);
    assert!(gates >= 10, "{gates} gates");
    assert_eq!(program.misuses(), misuses);
    destroy_exec(&program, exec);
}

#[test]
#[ignore = "it takes a minute"]
fn graph_is_whole_a_minute_after_real_time_work() {
    let (program, tiles) = learned();
    let gates = || instantiate(&program, chain(&program, &[tiles]).0).1;
    assert!(gates() >= 10);
    std::thread::sleep(Duration::from_secs(61)); // sleep: the minute that is the subject
    assert_eq!(gates(), 0);
}

/// Graphs name it by its function, by which the program has never launched it.
#[test]
fn kernel_of_a_library_is_in_slices() {
    let program = program();
    let shape = Shape::line();
    let [_, kernel] = library_with_tiles(&program);
    program.learn_slices(kernel, &shape);
    let tiles = Call { kernel, shape, value: 3 };
    let (graph, nodes) = chain(&program, &[tiles]);
    let (exec, gates) = instantiate(&program, graph);
    assert!(gates >= 10, "{gates} gates");
    assert!(is_stopped(&program, exec, &shape, &[3]));
    assert_eq!(Call { value: 4, ..tiles }.set(&program, exec, nodes[0]), 0);
    assert!(is_stopped(&program, exec, &shape, &[4]));
    destroy_exec(&program, exec);
}

#[test]
fn graph_whose_slices_are_refused_has_gates() {
    run_alone("graphs::program_without_slices", &[("REEF_FAKE_NO_COPIES", "1")]);
}

#[test]
#[ignore = "a part of another test"]
fn program_without_slices() {
    let (program, tiles) = learned();
    let small = Shape { grid: [1, 1, 1], ..tiles.shape };
    let mut calls = vec![Call { shape: small, ..tiles }; 100];
    calls.push(tiles);
    let (exec, gates) = instantiate(&program, chain(&program, &calls).0);
    assert_eq!(gates, 1, "before one of the small ones");
    program.clear();
    program.inspect(&tiles.shape);
    launch(&program, exec);
    program.synchronize();
    let words = program.memory();
    assert_eq!(words[0], expected(&small, &[3; 101])[0]);
    assert!(words[1..] == expected(&tiles.shape, &[3])[1..]);
}

#[test]
fn slices_of_a_graph_are_shared_by_its_kernels() {
    run_alone("graphs::program_with_many_kernels", &[("REEF_FAKE_BLOCK_NS", "200000")]);
}

/// 64 waves of blocks that are as long as a slice.
#[test]
#[ignore = "a part of another test"]
fn program_with_many_kernels() {
    let (program, shape) = (program(), Shape { grid: [1024, 1, 1], ..Shape::line() });
    let tiles = Call { kernel: program.kernel("tiles"), shape, value: 3 };
    program.learn_slices(tiles.kernel, &shape);
    let gates = |count| instantiate(&program, chain(&program, &vec![tiles; count]).0).1;
    assert_eq!(gates(3), 3 * 64);
    let all = gates(50);
    assert!((1000..=2000).contains(&all) && all % 50 == 0, "{all} gates: the last is cut, too");
}

#[test]
fn context_that_ends_before_its_graphs_is_left_alone() {
    let (program, tiles) = learned();
    let (driver, misuses) = (program.driver, program.misuses());
    let [context, stream, at, kernel] = program.other_context();
    let run = || {
        assert_eq!(program.launch_on(stream, at, kernel, &tiles.shape, 1), 0);
        assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
    };
    program.hold(true);
    assert_eq!(program.launch_on(stream, at, kernel, &tiles.shape, 1), 0);
    program.hold(false);
    assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
    let sliced = program.sliced();
    until("sliced", || {
        run();
        program.sliced() > sliced
    });
    let (graph, nodes) = chain(&program, &[Call { kernel, ..tiles }]);
    let (exec, gates) = instantiate(&program, graph);
    assert!(gates >= 10, "{gates} gates");
    assert_eq!(call!(driver, cuGraphLaunch(exec, stream)), 0);
    assert_eq!(call!(driver, cuCtxDestroy_v2(context)), 0);
    assert_eq!(call!(driver, cuCtxSetCurrent(1)), 0);
    destroy_exec(&program, exec);
    assert_eq!(nodes_of(&program, graph), nodes);
    destroy(&program, graph);
    assert_eq!(program.misuses(), misuses);
}

#[test]
fn report_says_how_long_kernels_are_in_graphs() {
    let text = report_of("graphs::program_with_graphs", &[]);
    for (begin, how) in [
        ("  long kernel tiles, 301x1x1 blocks, ", "; in 2 nodes of graphs in "),
        ("  long kernel tiles, 301x1x1 blocks, ", "; whole in 1 node of graphs: it has attributes"),
        ("  long kernel waits, 301x1x1 blocks, ", "gates only: a loop waits for other blocks"),
    ] {
        let line = text.lines().find(|line| line.starts_with(begin));
        let line = line.unwrap_or_else(|| panic!("{begin}: no line in {text}"));
        assert!(line.contains(how), "{line}");
    }
}

#[test]
#[ignore = "a part of the test of the report"]
fn program_with_graphs() {
    let (program, tiles) = learned();
    let waits = Call { kernel: program.kernel("waits"), ..tiles };
    program.learn(waits.kernel, &waits.shape);
    instantiate(&program, chain(&program, &[tiles, tiles]).0);
    instantiate(&program, chain(&program, &[waits]).0);
    let (graph, nodes) = chain(&program, &[tiles]);
    let (driver, words) = (program.driver, [2_u64; 8]);
    assert_eq!(call!(driver, cuGraphKernelNodeSetAttribute(nodes[0], 4, words.as_ptr())), 0);
    instantiate(&program, graph);
}
