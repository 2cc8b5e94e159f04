//! Driver functions for graphs, with lists as vectors. `None`: the driver refused, or doesn't have
//! the function.

use crate::driver::calls::{calls, device as current_device};
use crate::driver::names;
use crate::driver::slots::real;
use crate::guest::find;
use crate::limit::device;
use crate::limit::sizes::round_up;
use reef_cuda_abi::layouts::{BatchMemOp, BatchMemOpNodeParams};
use reef_guest::hold::Holders;
use std::ffi::c_void;

/// `CUDA_KERNEL_NODE_PARAMS`, with room for fields that aren't read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelParams {
    pub(super) function: usize,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared: u32,
    pub(super) params: *mut *mut c_void,
    pub(super) extra: usize,
    /// From here on not in the first version: a library's kernel, and its context.
    pub(super) kernel: usize,
    pub(super) context: usize,
    pub(super) rest: [u64; 8],
}

impl Default for KernelParams {
    fn default() -> Self {
        let (grid, block, params) = ([1; 3], [1; 3], std::ptr::null_mut());
        let none = [0; 8];
        Self {
            function: 0,
            grid,
            block,
            shared: 0,
            params,
            extra: 0,
            kernel: 0,
            context: 0,
            rest: none,
        }
    }
}

/// `CU_STREAM_MEM_OP_WAIT_VALUE_32`; with `CU_STREAM_WAIT_VALUE_GEQ`, which is 0.
const WAIT: u32 = 1;
/// `CU_LAUNCH_ATTRIBUTE_…`.
const COOPERATIVE: u32 = 2;
const CLUSTER: u32 = 4;
const PREFERRED_CLUSTER: u32 = 11;
const UPDATABLE: u32 = 13;

/// `CUDA_MEM_ALLOC_NODE_PARAMS`: a pool's properties with the location, then access rights, and the
/// size.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct MemoryParams {
    kind: u32,
    handles: u32,
    location: u32,
    ordinal: i32,
    rest: [u64; 9],
    access: [u64; 2],
    bytes: u64,
    address: u64,
}

/// `CU_GRAPH_NODE_TYPE_GRAPH`, `…_MEM_ALLOC` and `…_MEM_FREE`.
const CHILD: u32 = 4;
const MEMORY: u32 = 10;
const FREE: u32 = 11;
/// `CU_MEM_ALLOCATION_TYPE_MANAGED`: it moves to where it is used.
const MANAGED: u32 = 2;
/// `CU_MEM_LOCATION_TYPE_HOST`, `…_HOST_NUMA` and `…_HOST_NUMA_CURRENT`.
const HOST: [u32; 3] = [2, 3, 4];
/// Unit in which the driver allocates memory for graphs, in bytes.
const MEMORY_UNIT: u64 = 2 << 20;
mod raw {
    use super::*;

    calls! {
        kind = cuGraphNodeGetType(node: usize, kind: &mut u32);
        kernel = cuGraphKernelNodeGetParams(node: usize, params: &mut KernelParams);
        kernel_v2 = cuGraphKernelNodeGetParams_v2(node: usize, params: &mut KernelParams);
        attribute = cuGraphKernelNodeGetAttribute(node: usize, which: u32, value: &mut [u64; 8]);
        waits = cuGraphBatchMemOpNodeGetParams(node: usize, params: &mut BatchMemOpNodeParams);
        child = cuGraphChildGraphNodeGetGraph(node: usize, child: &mut usize);
        memory = cuGraphMemAllocNodeGetParams(node: usize, params: &mut MemoryParams);
        copy_attributes = cuGraphKernelNodeCopyAttributes(to: usize, from: usize);
        free = cuGraphMemFreeNodeGetParams(node: usize, address: &mut u64);
        clone = cuGraphClone(clone: &mut usize, graph: usize);
        find = cuGraphNodeFindInClone(node: &mut usize, original: usize, clone: usize);
    }

    // Lists are null, or have `count` elements. The driver reads waits during the call alone.
    calls! {
        unsafe:
        nodes = cuGraphGetNodes(graph: usize, nodes: *mut usize, count: &mut usize);
        edges = cuGraphGetEdges(graph: usize, from: *mut usize, to: *mut usize, count: &mut usize);
        edges_v2 = cuGraphGetEdges_v2(
            graph: usize, from: *mut usize, to: *mut usize, data: *mut u64, count: &mut usize
        );
        add_waits = cuGraphAddBatchMemOpNode(
            node: &mut usize, graph: usize, after: *const usize, count: usize, params: &BatchMemOpNodeParams
        );
        add_kernel = cuGraphAddKernelNode(
            node: &mut usize, graph: usize, after: *const usize, count: usize, params: &KernelParams
        );
        set_kernel = cuGraphKernelNodeSetParams(node: usize, params: &KernelParams);
        connect = cuGraphAddDependencies(graph: usize, from: *const usize, to: *const usize, count: usize);
        disconnect = cuGraphRemoveDependencies(graph: usize, from: *const usize, to: *const usize, count: usize);
        /// # Safety
        ///
        /// The graph is not in use.
        destroy = cuGraphDestroy(graph: usize);
        /// # Safety
        ///
        /// Nothing else names the node.
        destroy_node = cuGraphDestroyNode(node: usize);
    }
}

fn succeeded(code: Option<u32>) -> Option<()> {
    (code == Some(0)).then_some(())
}

/// Effect of a node on the memory of its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Allocated {
        ordinal: i32,
        bytes: u64,
        address: u64,
    },
    Freed {
        address: u64,
    },
    /// A child graph, with its own nodes.
    Inside(usize),
    None,
}

impl MemoryParams {
    /// Returns whether the memory is the host's.
    fn is_of_host(&self) -> bool {
        self.kind != MANAGED && HOST.contains(&self.location)
    }

    /// Returns the device on which the memory counts: the current one if it has none of its own.
    fn device(&self) -> i32 {
        let own = device::at(self.location, self.ordinal);
        own.or_else(current_device).unwrap_or(self.ordinal)
    }
}

pub(super) fn memory_of(node: usize) -> Memory {
    let (mut kind, mut child, mut address, mut params) = (0, 0, 0, MemoryParams::default());
    let _ = raw::kind(node, &mut kind); // an error leaves a kind that isn't matched below
    match kind {
        CHILD if raw::child(node, &mut child) == Some(0) => Memory::Inside(child),
        FREE if raw::free(node, &mut address) == Some(0) => Memory::Freed { address },
        MEMORY if raw::memory(node, &mut params) == Some(0) && !params.is_of_host() => {
            Memory::Allocated {
                ordinal: params.device(),
                bytes: round_up(params.bytes, MEMORY_UNIT),
                address: params.address,
            }
        }
        _ => Memory::None,
    }
}

/// Returns all nodes, in the driver's order.
pub(super) fn nodes(graph: usize) -> Option<Vec<usize>> {
    let mut count = 0;
    // SAFETY: no list.
    succeeded(unsafe { raw::nodes(graph, std::ptr::null_mut(), &mut count) })?;
    let mut nodes = vec![0; count];
    if count > 0 {
        // SAFETY: a list of `count`.
        succeeded(unsafe { raw::nodes(graph, nodes.as_mut_ptr(), &mut count) })?;
    }
    nodes.truncate(count);
    Some(nodes)
}

/// Returns all edges, each with a flag that its second node may begin before the first has ended.
pub(super) fn edges(graph: usize) -> Option<Vec<(usize, usize, bool)>> {
    let null = std::ptr::null_mut();
    let mut count = 0;
    // SAFETY: no lists.
    let sized = unsafe { raw::edges_v2(graph, null, null, null.cast(), &mut count) };
    if sized.is_none_or(|code| code != 0) {
        return plain_edges(graph);
    }
    let (mut from, mut to, mut data) = (vec![0; count], vec![0; count], vec![0_u64; count]);
    if count > 0 {
        let lists = (from.as_mut_ptr(), to.as_mut_ptr(), data.as_mut_ptr());
        // SAFETY: lists of `count`.
        succeeded(unsafe { raw::edges_v2(graph, lists.0, lists.1, lists.2, &mut count) })?;
    }
    let pairs = from.into_iter().zip(to).zip(data).take(count);
    Some(pairs.map(|((from, to), data)| (from, to, data != 0)).collect())
}

/// Returns all edges on a driver before CUDA 12.3, which has no such flag.
fn plain_edges(graph: usize) -> Option<Vec<(usize, usize, bool)>> {
    let mut count = 0;
    let null = std::ptr::null_mut();
    // SAFETY: no lists.
    succeeded(unsafe { raw::edges(graph, null, null, &mut count) })?;
    let (mut from, mut to) = (vec![0; count], vec![0; count]);
    if count > 0 {
        let (from, to) = (from.as_mut_ptr(), to.as_mut_ptr());
        // SAFETY: lists of `count`.
        succeeded(unsafe { raw::edges(graph, from, to, &mut count) })?;
    }
    Some(from.into_iter().zip(to).take(count).map(|(from, to)| (from, to, false)).collect())
}

/// Returns the `CUgraphNodeType` of a node.
pub(super) fn kind(node: usize) -> Option<u32> {
    let mut kind = 0;
    succeeded(raw::kind(node, &mut kind))?;
    Some(kind)
}

pub(super) fn kernel(node: usize) -> Option<KernelParams> {
    let mut params = KernelParams::default();
    let code = raw::kernel_v2(node, &mut params).filter(|code| *code == 0);
    succeeded(code.or_else(|| raw::kernel(node, &mut params)))?;
    Some(params)
}

/// Returns whether kernels on the device may change this node. Such a node can't be cloned.
pub(super) fn is_device_updatable(node: usize) -> bool {
    let mut value = [0; 8];
    raw::attribute(node, UPDATABLE, &mut value) == Some(0) && value[0] as u32 != 0
}

/// Returns whether all blocks of a kernel node run at a time, or some are together in clusters.
pub(super) fn has_blocks_together(node: usize) -> bool {
    let mut all = [[0; 8]; 3];
    let [cooperative, cluster, preferred] = &mut all;
    let is_known = raw::attribute(node, COOPERATIVE, cooperative) == Some(0);
    // A driver that doesn't know of clusters has none.
    let _ = raw::attribute(node, CLUSTER, cluster);
    let _ = raw::attribute(node, PREFERRED_CLUSTER, preferred);
    let has = |[first, second, ..]: [u64; 8]| {
        [first as u32, (first >> 32) as u32, second as u32].into_iter().any(|side| side > 1)
    };
    !is_known || all[0][0] as u32 != 0 || has(all[1]) || has(all[2])
}

/// Returns whether a node of memory operations is a gate, of any context.
pub(super) fn is_gate(node: usize) -> Option<bool> {
    let ops = std::ptr::null();
    let mut params = BatchMemOpNodeParams { context: 0, count: 0, ops, flags: 0 };
    succeeded(raw::waits(node, &mut params))?;
    // SAFETY: the driver's list, which has as many entries as it says and stays until the node is
    // changed.
    let first = unsafe { params.ops.as_ref() }.filter(|_| params.count > 0);
    Some(first.is_some_and(|wait| wait.operation == WAIT && find::is_gate(wait.at)))
}

/// Returns the child graph of a node, which owns it.
pub(super) fn child(node: usize) -> Option<usize> {
    let mut child = 0;
    succeeded(raw::child(node, &mut child))?;
    Some(child)
}

pub(super) fn clone(graph: usize) -> Option<usize> {
    let mut clone = 0;
    succeeded(raw::clone(&mut clone, graph))?;
    Some(clone)
}

/// Returns the node of a clone that was made from this one.
pub(super) fn find(original: usize, clone: usize) -> Option<usize> {
    let mut node = 0;
    succeeded(raw::find(&mut node, original, clone))?;
    Some(node)
}

/// Adds a gate at this address, after these nodes.
pub(super) fn add_gate(graph: usize, after: &[usize], context: usize, gate: u64) -> Option<usize> {
    let value = u64::from(Holders::PASS);
    let wait = BatchMemOp { operation: WAIT, at: gate, value, flags: 0, rest: [0; 2] };
    let params = BatchMemOpNodeParams { context, count: 1, ops: &raw const wait, flags: 0 };
    let mut node = 0;
    // SAFETY: a list of this length; the wait outlives the call.
    succeeded(unsafe { raw::add_waits(&mut node, graph, after.as_ptr(), after.len(), &params) })?;
    Some(node)
}

/// Adds a kernel after a node. The driver copies the parameters.
///
/// # Safety
///
/// There is an address of each of the kernel's parameters.
pub(super) unsafe fn add_kernel(
    graph: usize,
    after: usize,
    params: &KernelParams,
) -> Option<usize> {
    let mut node = 0;
    // SAFETY: `after` is a list of one node, and `# Safety` demands that `params` has an address of
    // each parameter. The driver copies them during the call.
    succeeded(unsafe { raw::add_kernel(&mut node, graph, &raw const after, 1, params) })?;
    Some(node)
}

/// Gives a kernel node of a clone other parameters, which the driver copies.
///
/// # Safety
///
/// There is an address of each of the kernel's parameters.
pub(super) unsafe fn set_kernel(node: usize, params: &KernelParams) -> Option<()> {
    // SAFETY: `# Safety` demands that `params` has an address of each parameter. The driver copies
    // them during the call, and checks the node.
    succeeded(unsafe { raw::set_kernel(node, params) })
}

/// Gives a kernel node of a clone the attributes of another one.
pub(super) fn copy_attributes(to: usize, from: usize) -> Option<()> {
    succeeded(raw::copy_attributes(to, from))
}

pub(super) fn connect(graph: usize, from: usize, to: usize) -> Option<()> {
    // SAFETY: lists of one.
    succeeded(unsafe { raw::connect(graph, &raw const from, &raw const to, 1) })
}

/// Removes the edges from these nodes to one.
pub(super) fn disconnect(graph: usize, from: &[usize], to: usize) -> Option<()> {
    if from.is_empty() {
        return Some(());
    }
    let to = vec![to; from.len()];
    // SAFETY: lists of this length.
    succeeded(unsafe { raw::disconnect(graph, from.as_ptr(), to.as_ptr(), from.len()) })
}

/// Removes a node of a clone, with its edges.
pub(super) fn remove(node: usize) -> Option<()> {
    // SAFETY: a node of a clone of ours, which nothing else names.
    succeeded(unsafe { raw::destroy_node(node) })
}

pub(super) fn destroy(graph: usize) {
    // SAFETY: a clone of ours. If the driver refuses, it has lost the graph already.
    let _ = unsafe { raw::destroy(graph) };
}
