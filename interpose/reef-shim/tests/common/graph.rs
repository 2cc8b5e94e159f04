//! Graphs that are built node by node.

use super::{Driver, call};
use crate::common;

/// `CUDA_KERNEL_NODE_PARAMS`.
#[repr(C)]
struct KernelParams {
    function: usize,
    sizes: [u32; 7],
    params: *const *const u64,
    extra: usize,
    rest: [usize; 2],
}

/// A graph of the program's, whose kernels are `mix`.
#[derive(Clone, Copy, Debug)]
pub struct Graph {
    pub driver: Driver,
    pub mix: usize,
    pub handle: usize,
}

impl Graph {
    pub fn new(driver: Driver, mix: usize) -> Self {
        let mut handle = 0_usize;
        assert_eq!(call!(driver, cuGraphCreate(&raw mut handle, 0)), 0);
        Self { driver, mix, handle }
    }

    /// A kernel behind these nodes.
    pub fn kernel(&self, after: &[usize], to: usize, value: u64) -> usize {
        let (graph, mut node) = (self.handle, 0_usize);
        let count = after.len();
        self.with(to, value, |params| {
            let driver = self.driver;
            let (node, after) = (&raw mut node, after.as_ptr());
            call!(driver, cuGraphAddKernelNode_v2(node, graph, after, count, params))
        });
        node
    }

    /// Kernels behind each other and these nodes: all of them.
    pub fn chain(
        &self,
        after: &[usize],
        to: usize,
        values: impl IntoIterator<Item = u64>,
    ) -> Vec<usize> {
        let mut nodes: Vec<usize> = Vec::new();
        for value in values {
            let last = nodes.last().map_or(after, std::slice::from_ref);
            nodes.push(self.kernel(last, to, value));
        }
        nodes
    }

    pub fn host(&self, after: &[usize], function: extern "C" fn(usize), data: usize) -> usize {
        let (driver, mut node, count) = (self.driver, 0_usize, after.len());
        let (graph, params) = (self.handle, [function as usize, data]);
        let (to, after, params) = (&raw mut node, after.as_ptr(), params.as_ptr());
        assert_eq!(call!(driver, cuGraphAddHostNode(to, graph, after, count, params)), 0);
        node
    }

    pub fn child(&self, after: &[usize], child: &Self) -> usize {
        let (driver, mut node, count) = (self.driver, 0_usize, after.len());
        let (to, after, graph) = (&raw mut node, after.as_ptr(), self.handle);
        assert_eq!(
            call!(driver, cuGraphAddChildGraphNode(to, graph, after, count, child.handle)),
            0
        );
        node
    }

    /// A node of any kind: what its struct's words are.
    pub fn any(&self, after: &[usize], kind: usize, words: [usize; 5]) -> (u32, usize) {
        let (driver, mut node, count) = (self.driver, 0_usize, after.len());
        let mut params = [0_usize; 32];
        params[0] = kind;
        params[2..7].copy_from_slice(&words);
        let (to, after, graph) = (&raw mut node, after.as_ptr(), self.handle);
        let code = call!(driver, cuGraphAddNode(to, graph, after, count, params.as_mut_ptr()));
        (code, node)
    }

    /// Gives a kernel's node of an executable graph another value.
    pub fn set(&self, exec: usize, node: usize, to: usize, value: u64) -> u32 {
        let driver = self.driver;
        self.with(to, value, |params| {
            call!(driver, cuGraphExecKernelNodeSetParams_v2(exec, node, params))
        })
    }

    fn with(&self, to: usize, value: u64, call: impl FnOnce(*const KernelParams) -> u32) -> u32 {
        let to = to as u64;
        let args = [&raw const to, &raw const value];
        let (params, sizes) = (args.as_ptr(), [1, 1, 1, 1, 1, 1, 0]);
        call(&KernelParams { function: self.mix, sizes, params, extra: 0, rest: [0; 2] })
    }

    pub fn instantiate(&self) -> usize {
        let (driver, graph, mut exec) = (self.driver, self.handle, 0_usize);
        assert_eq!(call!(driver, cuGraphInstantiateWithFlags(&raw mut exec, graph, 0)), 0);
        exec
    }

    /// The number of nodes, as the program sees it.
    pub fn nodes(&self) -> usize {
        let (driver, graph, mut count) = (self.driver, self.handle, 0_usize);
        assert_eq!(call!(driver, cuGraphGetNodes(graph, 0, &raw mut count)), 0);
        count
    }
}
