//! Captures that a driver takes no gates into, and launches of kinds that few programs use.

use super::{Program, UUID, run_alone};
use crate::common::graph::Graph;
use crate::common::{self, call, until, until_at_rest};
use reef_guest::registry::Registry;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};

fn value(program: &Program) -> u64 {
    // SAFETY: a word of the fake driver's, which nothing writes to while it is held or has ended.
    unsafe { (program.memory as *const u64).read_volatile() }
}

/// Holds the program, has it launch, and checks whether it stood still meanwhile.
fn is_held_at(program: &Program, launch: impl FnOnce()) {
    let before = value(program);
    program.registry.hold(UUID, true);
    launch();
    until_at_rest();
    let meanwhile = value(program);
    program.registry.hold(UUID, false);
    assert_eq!(call!(program.driver, cuCtxSynchronize()), 0);
    program.expect_held(before == meanwhile, "held");
    assert_ne!(before, value(program), "and then it ran");
}

/// A program that has joined.
fn begun(program: Program) -> (Program, usize) {
    program.use_device(0);
    let program = program.with_work();
    let stream = program.stream();
    program.launch(stream, 1);
    assert_eq!(call!(program.driver, cuStreamSynchronize(stream)), 0);
    (program, stream)
}

#[test]
fn bodies_are_captured_without_gates() {
    run_alone("captures::bodies_are_captured_without_gates", "be", "1", |program| {
        let (program, stream) = begun(program);
        let (driver, [mut condition, mut body, mut exec]) = (program.driver, [0_usize; 3]);
        let graph = Graph::new(driver, program.mix);
        let made = call!(
            driver,
            cuGraphConditionalHandleCreate(&raw mut condition, graph.handle, 0, 1, 1)
        );
        assert_eq!(made, 0);
        let words = [condition, 1 << 32, &raw mut body as usize, 0, 0];
        assert_eq!(graph.any(&[], 13, words).0, 0);
        assert_eq!(call!(driver, cuStreamBeginCaptureToGraph(stream, body, 0, 0, 0, 1)), 0);
        program.launch(stream, 200);
        let mut same = 0_usize;
        assert_eq!(call!(driver, cuStreamEndCapture(stream, &raw mut same)), 0);
        assert_eq!(same, body);
        assert_eq!(call!(driver, cuGraphInstantiateWithFlags(&raw mut exec, graph.handle, 0)), 0);
        is_held_at(&program, || assert_eq!(call!(driver, cuGraphLaunch(exec, stream)), 0));
    });
}

/// Holds a guest when a graph reaches its beginning.
static HOLDER: AtomicPtr<Registry> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn hold(_: usize) {
    // SAFETY: null, or the test's registry, which outlives the graph's run.
    unsafe { HOLDER.load(SeqCst).as_ref() }.into_iter().for_each(|holder| holder.hold(UUID, true));
}

/// Work that is captured into a graph of the program gets its gates when that graph is
/// instantiated.
#[test]
fn captures_into_a_graph_have_gates_once_it_is_instantiated() {
    let name = "captures::captures_into_a_graph_have_gates_once_it_is_instantiated";
    run_alone(name, "be", "1", |program| {
        let (mut program, stream) = begun(program);
        let (driver, mut same) = (program.driver, 0_usize);
        let graph = Graph::new(driver, program.mix);
        let first = graph.host(&[], hold, 0);
        let (to, after) = (graph.handle, &raw const first);
        assert_eq!(call!(driver, cuStreamBeginCaptureToGraph(stream, to, after, 0, 1, 1)), 0);
        program.launch(stream, 200);
        assert_eq!(call!(driver, cuStreamEndCapture(stream, &raw mut same)), 0);
        assert_eq!(graph.nodes(), 201, "the program's graph is as it made it");
        let exec = graph.instantiate();
        HOLDER.store(&raw mut program.registry, SeqCst);
        assert_eq!(call!(driver, cuGraphLaunch(exec, stream)), 0);
        until("it has begun", || value(&program) != 0);
        until_at_rest();
        let stands = call!(driver, cuStreamQuery(stream)) == 600;
        program.expect_held(stands, "it stands inside of the graph");
        program.registry.hold(UUID, false);
        assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
    });
}

/// A thread's own stream has the same handle on each device. The end of one capture is not that of
/// the other one.
#[test]
fn threads_own_streams_are_captured_on_two_devices() {
    let name = "captures::threads_own_streams_are_captured_on_two_devices";
    run_alone(name, "be", "1", |program| {
        let (program, _) = begun(program);
        let (driver, mut graph) = (program.driver, 0_usize);
        let second = program.use_device(1);
        assert_eq!(call!(driver, cuStreamBeginCapture_v2_ptsz(0, 2)), 0);
        let first = program.use_device(0);
        assert_eq!(call!(driver, cuStreamBeginCapture_v2_ptsz(0, 2)), 0);
        assert_eq!(call!(driver, cuCtxSetCurrent(second)), 0);
        assert_eq!(call!(driver, cuStreamEndCapture_ptsz(0, &raw mut graph)), 0);
        assert_eq!(call!(driver, cuCtxSetCurrent(first)), 0);
        for value in 0..3 {
            let (mix, memory) = (program.mix, program.memory);
            assert_eq!(driver.launch("cuLaunchKernel_ptsz", mix, 0, memory, value), 0);
        }
        assert_eq!(call!(driver, cuStreamEndCapture_ptsz(0, &raw mut graph)), 0);
        assert_eq!(Graph { handle: graph, ..Graph::new(driver, program.mix) }.nodes(), 3);
    });
}

/// The second capture has gates where the first one had them, and none where that had none.
#[test]
fn graph_is_captured_again() {
    run_alone("captures::graph_is_captured_again", "be", "1", |program| {
        let (program, stream) = begun(program);
        let driver = program.driver;
        let built = Graph::new(driver, program.mix);
        built.chain(&[], program.memory, 0..200);
        let mut captured = 0_usize;
        assert_eq!(call!(driver, cuStreamBeginCapture_v2(stream, 1)), 0);
        program.launch(stream, 200);
        assert_eq!(call!(driver, cuStreamEndCapture(stream, &raw mut captured)), 0);
        for graph in [built.handle, captured] {
            let mut same = 0_usize;
            assert_eq!(call!(driver, cuStreamBeginRecaptureToGraph(stream, 1, graph, 0, 0)), 0);
            program.launch(stream, 200);
            assert_eq!(call!(driver, cuStreamEndCapture(stream, &raw mut same)), 0);
            assert_eq!(same, graph);
        }
    });
}

#[test]
fn lists_of_commands_are_captured_without_gates() {
    for class in ["be", "rt"] {
        if std::env::var("REEF_CLASS").is_ok_and(|own| own != class) {
            continue;
        }
        run_alone(
            "captures::lists_of_commands_are_captured_without_gates",
            class,
            "1",
            |program| {
                let (program, stream) = begun(program);
                let (driver, params) = (program.driver, [0_usize; 2]);
                assert_eq!(call!(driver, cuStreamBeginCaptureToCig(stream, params.as_ptr())), 0);
                program.launch(stream, 200);
                assert_eq!(call!(driver, cuStreamEndCaptureToCig(stream)), 0);
                // Nothing is left of it.
                if class == "be" {
                    is_held_at(&program, || program.launch(stream, 2));
                } else {
                    program.launch(stream, 20);
                    program.holds_until(program.event(stream));
                }
            },
        );
    }
}

#[test]
fn launches_on_several_devices_are_held() {
    run_alone("captures::launches_on_several_devices_are_held", "be", "1", |program| {
        let (program, stream) = begun(program);
        let (driver, to, value) = (program.driver, program.memory as u64, 3_u64);
        let args = [&raw const to, &raw const value];
        let one = [1_u64 << 32 | 1, 1_u64 << 32 | 1, 1_u64 << 32 | 1, 0];
        let [a, b, c, d] = one.map(|word| word as usize);
        let list = [program.mix, a, b, c, d, stream, args.as_ptr() as usize];
        let (from, all) = (list.as_ptr(), u32::MAX);
        let code = call!(driver, cuLaunchCooperativeKernelMultiDevice(from, all, 0));
        assert_eq!(code, 1, "more than there are devices");
        is_held_at(&program, || {
            let list = list.as_ptr();
            assert_eq!(call!(driver, cuLaunchCooperativeKernelMultiDevice(list, 1, 0)), 0);
        });
    });
}

#[test]
fn unpacking_launch_is_held() {
    run_alone("captures::unpacking_launch_is_held", "be", "1", |program| {
        let (program, stream) = begun(program);
        let (driver, from) = (program.driver, 12_345_678_901_u64);
        let packed = [8, 8, 0, &raw const from as usize, program.memory, 0, 0, 0];
        is_held_at(&program, || {
            let packed = packed.as_ptr();
            assert_eq!(call!(driver, cuMemBatchDecompressAsync(packed, 1, 0, 0, stream)), 0);
        });
        let graph = Graph::new(driver, program.mix);
        graph.kernel(&[], program.memory, 1);
        assert_eq!(call!(driver, cuGraphUpload(graph.instantiate(), stream)), 0);
    });
}
