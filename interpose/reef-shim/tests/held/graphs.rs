//! Graphs that are built node by node: gates inside of them, and none that the program sees.

use super::{Program, mixed, program};
use crate::common::graph::Graph;
use crate::common::{self, UUID, call, until, until_at_rest};
use reef_guest::registry::Registry;

/// Closes the gate, from inside of a graph.
extern "C" fn hold(registry: usize) {
    // SAFETY: the test's registry, which outlives the graph's run.
    unsafe { &*(registry as *const Registry) }.hold(UUID, true);
}

impl Program {
    fn graph(&self) -> Graph {
        Graph::new(self.driver, self.mix)
    }

    /// A graph of launches that were captured.
    fn capture(&self, values: std::ops::Range<u64>) -> Graph {
        let mut handle = 0_usize;
        assert_eq!(call!(self.driver, cuStreamBeginCapture_v2(self.stream, 2)), 0);
        values.for_each(|value| assert_eq!(self.launch(value), 0));
        assert_eq!(call!(self.driver, cuStreamEndCapture(self.stream, &raw mut handle)), 0);
        Graph { handle, ..self.graph() }
    }

    fn launch_graph(&self, exec: usize) {
        assert_eq!(call!(self.driver, cuGraphLaunch(exec, self.stream)), 0);
    }

    fn gates(&self) -> u64 {
        self.registry.guests().iter().map(|guest| guest.gates).sum()
    }

    /// Launches a graph that closes the gate when it comes to its host node. It stands where the
    /// word is `middle`, except for a starvation relief, and opened again it leaves `end`.
    fn stops(&self, exec: usize, middle: u64, end: u64) {
        let reliefs = self.reliefs();
        let is_relieved = || self.reliefs() > reliefs;
        self.launch_graph(exec);
        until("it comes to its middle", || self.value() == middle || is_relieved());
        until_at_rest();
        let at_rest = (self.value(), self.query());
        assert!(at_rest == (middle, 600) || is_relieved(), "it stands in its middle: {at_rest:?}");
        self.registry.hold(UUID, false);
        self.synchronize();
        assert_eq!(self.value(), end);
    }

    /// Launches while the gate is closed: nothing runs then, except for a starvation relief.
    fn is_held_at(&self, launch: impl FnOnce()) {
        let (before, reliefs) = (self.value(), self.reliefs());
        self.registry.hold(UUID, true);
        launch();
        until_at_rest();
        let at_rest = (self.value(), self.query());
        assert!(at_rest == (before, 600) || self.reliefs() > reliefs, "held: {at_rest:?}");
        self.registry.hold(UUID, false);
        self.synchronize();
    }
}

#[test]
fn a_graph_is_stopped_in_its_middle_and_goes_on_where_it_stood() {
    let program = program();
    let program = program.as_ref().unwrap();
    program.launch(0);
    program.synchronize();
    let (graph, word, before) = (program.graph(), program.memory, program.value());
    let first = graph.chain(&[], word, 0..10);
    let host = graph.host(&first[9..], hold, &raw const program.registry as usize);
    graph.chain(&[host], word, 10..200);
    let exec = graph.instantiate();
    assert_eq!(graph.nodes(), 201, "the program's graph stays as it is");
    // The first gate behind the tenth kernel.
    program.stops(exec, mixed(before, 0..72), mixed(before, 0..200));
    assert_eq!(call!(program.driver, cuGraphExecDestroy(exec)), 0);
}

#[test]
fn a_graph_inside_of_a_node_has_gates_as_well() {
    let program = program();
    let program = program.as_ref().unwrap();
    program.launch(0);
    program.synchronize();
    let (graph, inner, word) = (program.graph(), program.graph(), program.memory);
    let before = program.value();
    inner.chain(&[], word, 40..140);
    let first = graph.chain(&[], word, 0..40);
    let host = graph.host(&first[39..], hold, &raw const program.registry as usize);
    let child = graph.child(&[host], &inner);
    let last = graph.chain(&[child], word, 140..160);
    let exec = graph.instantiate();
    assert_eq!((graph.nodes(), inner.nodes()), (62, 100));
    program.stops(exec, mixed(before, 0..72), mixed(before, 0..160));

    // Another graph in the place of the inner one, and a node behind it, both named by the
    // program's nodes.
    let (driver, other, start) = (program.driver, program.graph(), program.value());
    other.chain(&[], word, 300..400);
    let set = |inner| call!(driver, cuGraphExecChildGraphNodeSetParams(exec, child, inner));
    assert_eq!(set(other.handle), 0);
    assert_eq!(graph.set(exec, last[0], word, 7), 0);
    let values = || (0..40).chain(300..400).chain([7]).chain(141..160);
    program.stops(exec, mixed(start, values().take(72)), mixed(start, values()));
    // The same through the call for nodes of all kinds; one of another shape is refused.
    let mut params = [0_usize; 32];
    (params[0], params[2]) = (4, inner.handle);
    assert_eq!(call!(driver, cuGraphExecNodeSetParams(exec, child, params.as_mut_ptr())), 0);
    other.chain(&[], word, [1]);
    assert_ne!(set(other.handle), 0);
    let start = program.value();
    let values = || (0..140).chain([7]).chain(141..160);
    program.stops(exec, mixed(start, 0..72), mixed(start, values()));
    assert_eq!(call!(driver, cuGraphExecDestroy(exec)), 0);
}

#[test]
fn gated_executable_graph_is_updated_from_an_ungated_graph() {
    let program = program();
    let program = program.as_ref().unwrap();
    let (driver, graph, word) = (program.driver, program.graph(), program.memory);
    let nodes = graph.chain(&[], word, 0..180);
    let (gates, exec) = (program.gates(), graph.instantiate());
    program.synchronize();
    assert_eq!(program.gates() - gates, 2);
    assert_eq!(call!(driver, cuGraphDestroy(graph.handle)), 0);

    let other = program.graph();
    other.chain(&[], word, 500..680);
    let mut result = [7_usize; 3];
    let update = |with, result: &mut [usize; 3]| {
        call!(driver, cuGraphExecUpdate_v2(exec, with, result.as_mut_ptr()))
    };
    assert_eq!(update(other.handle, &mut result), 0);
    assert_eq!(other.nodes(), 180);
    assert_eq!(graph.set(exec, nodes[100], word, 9), 0);
    let start = program.value();
    program.launch_graph(exec);
    program.synchronize();
    let values = (500..600).chain([9]).chain(601..680);
    assert_eq!(program.value(), mixed(start, values));

    // Another shape is refused, by the name of a node of the program's; fewer nodes than there were
    // gates as well.
    let odd = program.graph();
    let nodes = odd.chain(&[], word, 0..179);
    let last = odd.kernel(&nodes[177..178], word, 1);
    assert_eq!((update(odd.handle, &mut result), result[1]), (910, last));
    let short = program.graph();
    short.chain(&[], word, 0..30);
    assert_eq!(update(short.handle, &mut result), 910);
    assert_eq!(call!(driver, cuGraphExecDestroy(exec)), 0);
}

#[test]
fn captured_child_graph_keeps_its_gates_and_gets_more() {
    let program = program();
    let program = program.as_ref().unwrap();
    let (driver, word) = (program.driver, program.memory);
    program.launch(0);
    program.synchronize();
    let (graph, gates, before) = (program.graph(), program.gates(), program.value());
    let captured = program.capture(100..280);
    assert_eq!((program.gates() - gates, captured.nodes()), (2, 182));

    let first = graph.chain(&[], word, 0..40);
    let child = graph.child(&first[39..], &captured);
    graph.chain(&[child], word, 300..360);
    let exec = graph.instantiate();
    // Before the captured one's kernel 32, where it is 72 from the beginning, and of kernel 36
    // behind it.
    assert_eq!(program.gates() - gates, 4);
    program.launch_graph(exec);
    program.synchronize();
    assert_eq!(program.value(), mixed(before, (0..40).chain(100..280).chain(300..360)));
    assert_eq!(call!(driver, cuGraphExecDestroy(exec)), 0);
    // By itself it stays as it was captured.
    let (gates, exec) = (program.gates(), captured.instantiate());
    assert_eq!(program.gates(), gates);
    program.launch_graph(exec);
    program.synchronize();
    assert_eq!(call!(driver, cuGraphExecDestroy(exec)), 0);
}

/// Kernels that may begin before their predecessors have ended: a gate between them would end that.
#[test]
fn gate_is_before_the_next_kernel_without_overlap() {
    let program = program();
    let program = program.as_ref().unwrap();
    program.launch(0);
    program.synchronize();
    let (driver, graph, before) = (program.driver, program.graph(), program.value());
    let handle = graph.handle;
    let nodes: Vec<_> = (0..100).map(|value| graph.kernel(&[], program.memory, value)).collect();
    for (at, pair) in nodes.windows(2).enumerate() {
        let (from, to, data) = (&raw const pair[0], &raw const pair[1], u64::from(at < 84) << 16);
        let data = &raw const data;
        assert_eq!(call!(driver, cuGraphAddDependencies_v2(handle, from, to, data, 1)), 0);
    }
    let (gates, exec) = (program.gates(), graph.instantiate());
    assert_eq!(program.gates() - gates, 1);
    program.launch_graph(exec);
    program.synchronize();
    assert_eq!(program.value(), mixed(before, 0..100));
    assert_eq!(call!(driver, cuGraphExecDestroy(exec)), 0);
}

/// A launch of a kernel that had a gate, and then of a graph without one inside.
#[test]
fn graph_right_after_a_gated_kernel_has_a_gate_before_it() {
    let program = program();
    let program = program.as_ref().unwrap();
    let (driver, graph) = (program.driver, program.graph());
    graph.chain(&[], program.memory, 0..3);
    let mut exec = 0_usize;
    let code = call!(driver, cuGraphInstantiateWithFlags(&raw mut exec, graph.handle, 4));
    assert_eq!(code, 0, "kernels may launch it");
    program.launch_graph(exec);
    program.launch(1);
    program.synchronize();
    let gates = program.gates();
    program.launch_graph(exec);
    assert_eq!(program.gates() - gates, 1);
    program.synchronize();
    let before = program.value();
    program.is_held_at(|| program.launch_graph(exec));
    assert_eq!(program.value(), mixed(before, 0..3));
    assert_eq!(call!(driver, cuGraphExecDestroy(exec)), 0);
}

/// A driver takes no memory operations in a graph that kernels may launch.
#[test]
fn captured_graph_that_kernels_launch_has_no_gates() {
    let program = program();
    let program = program.as_ref().unwrap();
    let driver = program.driver;
    program.launch(0);
    program.synchronize();
    let (captured, other) = (program.capture(0..180), program.capture(300..480));
    let (mut exec, mut result) = (0_usize, [7_usize; 3]);
    let code = call!(driver, cuGraphInstantiateWithFlags(&raw mut exec, captured.handle, 4));
    assert_eq!((code, captured.nodes()), (0, 182), "the program's graph stays as it is");
    let before = program.value();
    program.launch_graph(exec);
    program.synchronize();
    assert_eq!(program.value(), mixed(before, 0..180));
    let to = result.as_mut_ptr();
    assert_eq!(call!(driver, cuGraphExecUpdate_v2(exec, other.handle, to)), 0);
    let before = program.value();
    program.launch_graph(exec);
    program.synchronize();
    assert_eq!(program.value(), mixed(before, 300..480));
    assert_eq!(call!(driver, cuGraphExecDestroy(exec)), 0);
}

/// A driver takes no memory operations in the body of a conditional node.
#[test]
fn captured_graph_in_a_body_has_no_gates() {
    let program = program();
    let program = program.as_ref().unwrap();
    let driver = program.driver;
    program.launch(0);
    program.synchronize();
    let (captured, other) = (program.capture(0..180), program.capture(300..480));
    for is_of_any_kind in [false, true] {
        let (graph, mut condition, mut body) = (program.graph(), 0_usize, 0_usize);
        let (to, on) = (&raw mut condition, graph.handle);
        assert_eq!(call!(driver, cuGraphConditionalHandleCreate(to, on, 1, 1, 0)), 0);
        let words = [condition, 1 << 32, &raw mut body as usize, 0, 0];
        assert_eq!(graph.any(&[], 13, words).0, 0);
        let body = Graph { handle: body, ..graph };
        let node = if is_of_any_kind {
            let (code, node) = body.any(&[], 4, [captured.handle, 0, 0, 0, 0]);
            assert_eq!(code, 0);
            node
        } else {
            body.child(&[], &captured)
        };
        let (before, exec) = (program.value(), graph.instantiate());
        program.is_held_at(|| program.launch_graph(exec));
        assert_eq!(program.value(), mixed(before, 0..180));
        // Another one in its place has none either.
        let set = call!(driver, cuGraphExecChildGraphNodeSetParams(exec, node, other.handle));
        let before = program.value();
        program.launch_graph(exec);
        program.synchronize();
        assert_eq!((set, program.value()), (0, mixed(before, 300..480)));
        let nodes = [captured, other].map(|graph| graph.nodes());
        assert_eq!(nodes, [182; 2], "the program's graphs stay as they are");
        assert_eq!(call!(driver, cuGraphExecDestroy(exec)), 0);
    }
}

#[test]
fn uncloneable_graph_waits_at_a_gate_before_it() {
    let program = program();
    let program = program.as_ref().unwrap();
    let (driver, word) = (program.driver, program.memory);
    program.launch(0);
    program.synchronize();
    let with_branch = || {
        let (graph, mut condition, mut body) = (program.graph(), 0_usize, 0_usize);
        let on = graph.handle;
        assert_eq!(
            call!(driver, cuGraphConditionalHandleCreate(&raw mut condition, on, 1, 1, 0)),
            0
        );
        let words = [condition, 0, &raw mut body as usize, 1, 1];
        assert_eq!(graph.any(&[], 13, words).0, 0);
        Graph { handle: body, ..graph }.chain(&[], word, 0..100);
        graph
    };
    let with_memory = || {
        let graph = program.graph();
        let (code, node) = graph.any(&[], 10, [0; 5]);
        assert_eq!(code, 0);
        graph.chain(&[node], word, 0..100);
        graph
    };
    for graph in [with_branch(), with_memory()] {
        let (gates, before) = (program.gates(), program.value());
        let exec = graph.instantiate();
        assert_eq!(program.gates(), gates, "none inside");
        program.is_held_at(|| program.launch_graph(exec));
        assert_eq!(program.value(), mixed(before, 0..100));
        assert_eq!(call!(driver, cuGraphExecDestroy(exec)), 0);
    }
}
