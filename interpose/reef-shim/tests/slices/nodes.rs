//! Graphs of the program with its kernels in PTX.

use crate::common::{self, call};
use crate::program::{Held, SHARED, Shape};

/// `CUDA_KERNEL_NODE_PARAMS`.
#[repr(C)]
pub(crate) struct NodeParams {
    function: usize,
    sizes: [u32; 7],
    params: *const *const u8,
    extra: usize,
    rest: [usize; 2],
}

/// Kernel of a node, with its size and value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) kernel: usize,
    pub(crate) shape: Shape,
    pub(crate) value: u32,
}

impl Call {
    /// Makes a call of the driver with the node's parameters, which it copies.
    pub(crate) fn with<T>(&self, program: &Held, call: impl FnOnce(*const NodeParams) -> T) -> T {
        let ([x, y, z], [width, height, depth]) = (self.shape.grid, self.shape.block);
        let (at, value) = (program.at, self.value);
        let params = [(&raw const at).cast::<u8>(), (&raw const value).cast::<u8>()];
        let sizes = [x, y, z, width, height, depth, SHARED];
        let (function, params) = (self.kernel, params.as_ptr());
        call(&NodeParams { function, sizes, params, extra: 0, rest: [0; 2] })
    }

    /// Adds a node behind these.
    pub(crate) fn add(&self, program: &Held, graph: usize, after: &[usize]) -> usize {
        let (driver, mut node) = (program.driver, 0_usize);
        let (count, after) = (after.len(), after.as_ptr());
        let code = self.with(program, |params| {
            call!(driver, cuGraphAddKernelNode_v2(&raw mut node, graph, after, count, params))
        });
        assert_eq!(code, 0);
        node
    }

    /// Gives a node of an executable graph these parameters.
    pub(crate) fn set(&self, program: &Held, exec: usize, node: usize) -> u32 {
        let driver = program.driver;
        self.with(program, |params| {
            call!(driver, cuGraphExecKernelNodeSetParams_v2(exec, node, params))
        })
    }

    /// Does so by the call for nodes of all kinds.
    pub(crate) fn set_any(&self, program: &Held, exec: usize, node: usize) -> u32 {
        let (driver, mut any) = (program.driver, [0_u64; 32]);
        self.with(program, |params| {
            let words = (&raw mut any[2]).cast::<NodeParams>();
            // SAFETY: room for the struct behind the kind, which is 0.
            unsafe { std::ptr::copy_nonoverlapping(params, words, 1) };
            call!(driver, cuGraphExecNodeSetParams(exec, node, any.as_mut_ptr()))
        })
    }
}

pub(crate) fn new_graph(program: &Held) -> usize {
    let mut graph = 0_usize;
    assert_eq!(call!(program.driver, cuGraphCreate(&raw mut graph, 0)), 0);
    graph
}

/// A graph of these calls, one behind the other, and its nodes.
pub(crate) fn chain(program: &Held, calls: &[Call]) -> (usize, Vec<usize>) {
    let (graph, mut nodes) = (new_graph(program), Vec::new());
    for call in calls {
        let last: Vec<_> = nodes.last().copied().into_iter().collect();
        nodes.push(call.add(program, graph, &last));
    }
    (graph, nodes)
}

/// A graph that captured these calls.
pub(crate) fn capture(program: &Held, calls: &[Call]) -> usize {
    let (driver, mut graph) = (program.driver, 0_usize);
    assert_eq!(call!(driver, cuStreamBeginCapture_v2(program.stream, 2)), 0);
    for call in calls {
        assert_eq!(program.launch(call.kernel, &call.shape, call.value), 0);
    }
    assert_eq!(call!(driver, cuStreamEndCapture(program.stream, &raw mut graph)), 0);
    graph
}

/// Nodes of a graph, in the driver's order.
pub(crate) fn nodes(program: &Held, graph: usize) -> Vec<usize> {
    let (driver, mut count) = (program.driver, 0_usize);
    assert_eq!(call!(driver, cuGraphGetNodes(graph, 0, &raw mut count)), 0);
    let mut nodes = vec![0_usize; count];
    assert_eq!(call!(driver, cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count)), 0);
    nodes
}

/// An executable graph, and the number of gates that it got.
pub(crate) fn instantiate(program: &Held, graph: usize) -> (usize, u64) {
    let (driver, mut exec, gates) = (program.driver, 0_usize, program.gates());
    assert_eq!(call!(driver, cuGraphInstantiateWithFlags(&raw mut exec, graph, 0)), 0);
    (exec, program.gates() - gates)
}

pub(crate) fn launch(program: &Held, exec: usize) {
    assert_eq!(call!(program.driver, cuGraphLaunch(exec, program.stream)), 0);
}

pub(crate) fn destroy(program: &Held, graph: usize) {
    assert_eq!(call!(program.driver, cuGraphDestroy(graph)), 0);
}

pub(crate) fn destroy_exec(program: &Held, exec: usize) {
    assert_eq!(call!(program.driver, cuGraphExecDestroy(exec)), 0);
}
