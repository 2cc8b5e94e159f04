//! Graphs that are built node by node.

use super::params::*;
use crate::api::export::{give, plain};
use crate::engine::graph::{Attributes, Node};
use crate::engine::op::Op;
use crate::engine::settings::setting;
use crate::engine::world::{World, world};
use reef_cuda_abi::codes::*;
use reef_cuda_abi::layouts::{
    BatchMemOpNodeParams, KernelNodeParamsV1, MemsetNodeParams, NodeParams,
};

plain! {
    cuGraphCreate(graph: *mut usize, flags: u32) = create;
    cuGraphDestroy(graph: usize) = destroy;
    cuGraphClone(clone: *mut usize, graph: usize) = clone;
    cuGraphAddKernelNode_v2(node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const KernelNodeParamsV1) = add_kernel;
    cuGraphAddKernelNode(node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const KernelNodeParamsV1) = add_kernel;
    cuGraphAddMemsetNode(node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const MemsetNodeParams, context: usize) = add_fill;
    cuGraphAddMemcpyNode(node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const [usize; 25], context: usize) = add_copy;
    cuGraphAddHostNode(node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const HostParams) = add_host;
    cuGraphAddEmptyNode(node: *mut usize, graph: usize, after: *const usize, count: usize) = add_empty;
    cuGraphAddChildGraphNode(node: *mut usize, graph: usize, after: *const usize, count: usize, child: usize) = add_child;
    cuGraphAddBatchMemOpNode(node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const BatchMemOpNodeParams) = add_mem_op;
    cuGraphAddMemAllocNode(node: *mut usize, graph: usize, after: *const usize, count: usize, params: *mut [usize; 15]) = add_memory;
    cuGraphAddMemFreeNode(node: *mut usize, graph: usize, after: *const usize, count: usize, at: usize) = add_free;
    cuGraphAddNode(node: *mut usize, graph: usize, after: *const usize, count: usize, params: *mut NodeParams) = add_any;
    cuGraphConditionalHandleCreate(handle: *mut u64, graph: usize, context: usize, value: u32, flags: u32) = condition;
    cuGraphAddDependencies(graph: usize, from: *const usize, to: *const usize, count: usize) = add_edges;
    cuGraphAddDependencies_v2(graph: usize, from: *const usize, to: *const usize, data: *const u64, count: usize) = add_edges_with;
    cuGraphRemoveDependencies(graph: usize, from: *const usize, to: *const usize, count: usize) = remove_edges;
    cuGraphDestroyNode(node: usize) = destroy_node;
    cuGraphKernelNodeSetParams_v2(node: usize, params: *const KernelNodeParamsV1) = set_kernel;
    cuGraphKernelNodeSetParams(node: usize, params: *const KernelNodeParamsV1) = set_kernel;
    cuGraphKernelNodeSetAttribute(node: usize, attribute: u32, value: *const [u64; 8]) = set_attribute;
    cuGraphKernelNodeCopyAttributes(to: usize, from: usize) = copy_attributes;
    cuGraphMemcpyNodeSetParams(node: usize, params: *const [usize; 25]) = set_copy;
    cuGraphMemsetNodeSetParams(node: usize, params: *const MemsetNodeParams) = set_fill;
}

unsafe fn create(graph: *mut usize, _flags: u32) -> u32 {
    let mut world = world();
    let handle = world.handle();
    world.graphs.insert(handle, Vec::new());
    // SAFETY: cuGraphCreate demands that `graph` may be written; null is left out.
    unsafe { give(graph, handle) };
    SUCCESS
}

unsafe fn destroy(graph: usize) -> u32 {
    let mut world = world();
    if !world.moved.contains(&graph) && world.forget(graph) { SUCCESS } else { INVALID_VALUE }
}

/// As the driver: not of graphs with memory or conditional nodes.
unsafe fn clone(clone: *mut usize, graph: usize) -> u32 {
    let mut world = world();
    let Some(nodes) = world.graphs.get(&graph) else { return INVALID_VALUE };
    if nodes.iter().any(|node| node.op.kind() == 13) || world.has_memory(graph) {
        return NOT_SUPPORTED;
    }
    let copy = world.copy(graph, false);
    // SAFETY: cuGraphClone demands that `clone` may be written; null is left out.
    unsafe { give(clone, copy.unwrap_or(0)) };
    SUCCESS
}

/// Adds a node.
unsafe fn add(
    node: *mut usize,
    graph: usize,
    after: *const usize,
    count: usize,
    op: Result<Op, u32>,
) -> u32 {
    let op = match op {
        Ok(op) => op,
        Err(code) => return code,
    };
    // SAFETY: functions that add nodes demand `count` nodes at `after`, and `at` is lower.
    let after: Vec<_> = (0..count).map(|at| unsafe { *after.add(at) }).collect();
    let mut world = world();
    let name = world.handle();
    let Some(nodes) = world.graphs.get_mut(&graph) else { return INVALID_VALUE };
    if !is_inside(nodes, &after) {
        return INVALID_VALUE;
    }
    nodes.push(Node::new(name, op, after));
    // SAFETY: functions that add nodes demand that `node` may be written; null is left out.
    unsafe { give(node, name) };
    SUCCESS
}

fn is_inside(nodes: &[Node], names: &[usize]) -> bool {
    names.iter().all(|name| nodes.iter().any(|node| node.name == *name))
}

macro_rules! adders {
    ($($adder:ident($params:ident: $type:ty $(, $unused:ident: $unused_type:ty)?) $op:expr;)+) => {
        $(
            unsafe fn $adder(
                node: *mut usize, graph: usize, after: *const usize, count: usize, $params: $type $(, $unused: $unused_type)?
            ) -> u32 {
                // SAFETY: the driver's function demands parameters of this type or null, `count`
                // nodes at `after`, and that `node` may be written.
                unsafe {
                    let op = $op; // nothing is locked any more
                    add(node, graph, after, count, op)
                }
            }
        )+
    };
}

adders! {
    add_kernel(params: *const KernelNodeParamsV1) kernel(params);
    add_fill(params: *const MemsetNodeParams, _context: usize) fill(params);
    add_copy(params: *const [usize; 25], _context: usize) copy(params);
    add_host(params: *const HostParams) host(params);
    add_mem_op(params: *const BatchMemOpNodeParams) mem_op(params);
    add_child(child: usize) inner(&mut world(), child, 0).map(Op::Child);
    add_memory(params: *mut [usize; 15]) memory(&mut *params);
    add_free(at: usize) Ok(Op::Free(at));
    add_any(params: *mut NodeParams) any(params);
}

unsafe fn add_empty(node: *mut usize, graph: usize, after: *const usize, count: usize) -> u32 {
    // SAFETY: cuGraphAddEmptyNode demands `count` nodes at `after`, and that `node` may be written.
    unsafe { add(node, graph, after, count, Ok(Op::Empty)) }
}

/// A node of any kind, or of one that this driver alone knows.
unsafe fn any(params: *mut NodeParams) -> Result<Op, u32> {
    // SAFETY: null, or a `CUgraphNodeParams` that may be written, as cuGraphAddNode demands.
    let NodeParams { kind, words, .. } = unsafe { params.as_mut() }.ok_or(INVALID_VALUE)?;
    // SAFETY: cuGraphAddNode demands that the words are the struct of the kind. `words` has room
    // for each of them.
    unsafe {
        match kind {
            0 => kernel(words.as_ptr().cast()),
            2 => fill(words.as_ptr().cast()),
            3 => host(words.as_ptr().cast()),
            4 => inner(&mut world(), words[0], words[1] as u32).map(Op::Child),
            5 => Ok(Op::Empty),
            10 => memory(&mut words[..]),
            11 => Ok(Op::Free(words[0])),
            13 => branch(words),
            _ => Err(NOT_SUPPORTED),
        }
    }
}

/// `CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE`; the other one is a clone.
const MOVED: u32 = 1;

/// The graph inside of a node: a copy, which can't have memory, or the graph itself.
fn inner(world: &mut World, graph: usize, ownership: u32) -> Result<usize, u32> {
    if !world.graphs.contains_key(&graph) || world.moved.contains(&graph) {
        return Err(INVALID_VALUE);
    }
    match ownership {
        MOVED => {
            world.moved.insert(graph);
            Ok(graph)
        }
        _ if world.has_memory(graph) => Err(NOT_SUPPORTED),
        _ => world.copy(graph, false).ok_or(INVALID_VALUE),
    }
}

/// `CU_MEM_LOCATION_TYPE_HOST`.
const HOST: u32 = 2;

/// Memory of a graph: `CUDA_MEM_ALLOC_NODE_PARAMS` has a location in its second word, and ends with
/// bytes, and the address that it gets.
unsafe fn memory(words: &mut [usize]) -> Result<Op, u32> {
    let bytes = words[13].max(8);
    // SAFETY: a place of ours.
    unsafe { crate::api::memory::host_alloc(&raw mut words[14], bytes, 0) };
    let mut world = world();
    world.note_of_graphs(words[14]);
    if words[1] as u32 == HOST {
        world.note_of_host(words[14]);
    }
    Ok(Op::Memory { at: words[14], bytes: words[13] as u64 })
}

/// A conditional node that runs its body once or not at all. The body is the driver's; the program
/// fills it.
unsafe fn branch(words: &[usize; 30]) -> Result<Op, u32> {
    let mut world = world();
    let runs = *world.conditions.get(&(words[0] as u64)).ok_or(INVALID_VALUE)?;
    let body = world.handle();
    world.graphs.insert(body, Vec::new());
    world.bodies.insert(body);
    // SAFETY: cuGraphAddNode demands room for one graph, at the address in the third word of a
    // conditional node.
    unsafe { give(words[2] as *mut usize, body) };
    Ok(Op::If { body, runs })
}

unsafe fn condition(
    handle: *mut u64,
    _graph: usize,
    _context: usize,
    value: u32,
    _flags: u32,
) -> u32 {
    let mut world = world();
    let name = world.number();
    world.conditions.insert(name, value != 0);
    // SAFETY: cuGraphConditionalHandleCreate demands that `handle` may be written; null is left
    // out.
    unsafe { give(handle, name) };
    SUCCESS
}

/// The edges that the caller names, if all their nodes are of this graph.
unsafe fn edges(
    world: &World,
    graph: usize,
    from: *const usize,
    to: *const usize,
    count: usize,
) -> Option<Vec<(usize, usize)>> {
    // SAFETY: functions that name edges demand `count` nodes in both lists, and `at` is lower.
    let edges: Vec<_> = (0..count).map(|at| unsafe { (*from.add(at), *to.add(at)) }).collect();
    let names: Vec<_> = edges.iter().flat_map(|&(from, to)| [from, to]).collect();
    is_inside(world.graphs.get(&graph)?, &names).then_some(edges)
}

unsafe fn add_edges(graph: usize, from: *const usize, to: *const usize, count: usize) -> u32 {
    let mut world = world();
    // SAFETY: cuGraphAddDependencies demands `count` nodes in both lists.
    let Some(edges) = (unsafe { edges(&world, graph, from, to, count) }) else {
        return INVALID_VALUE;
    };
    for (from, to) in edges {
        world.node(graph, to).into_iter().for_each(|node| node.after.push(from));
    }
    SUCCESS
}

/// Edges with data, or with none: those that aren't zero make their second nodes overlap.
unsafe fn add_edges_with(
    graph: usize,
    from: *const usize,
    to: *const usize,
    data: *const u64,
    count: usize,
) -> u32 {
    // SAFETY: cuGraphAddDependencies_v2 demands `count` nodes in both lists.
    let code = unsafe { add_edges(graph, from, to, count) };
    for at in (0..count).filter(|_| code == SUCCESS) {
        // SAFETY: cuGraphAddDependencies_v2 demands `count` nodes in both lists, and as many
        // entries of data unless that is null. `at` is lower.
        let (to, data) = unsafe { (*to.add(at), if data.is_null() { 0 } else { *data.add(at) }) };
        world().node(graph, to).into_iter().for_each(|node| node.overlaps |= data != 0);
    }
    code
}

unsafe fn remove_edges(graph: usize, from: *const usize, to: *const usize, count: usize) -> u32 {
    let mut world = world();
    // SAFETY: cuGraphRemoveDependencies demands `count` nodes in both lists.
    let Some(edges) = (unsafe { edges(&world, graph, from, to, count) }) else {
        return INVALID_VALUE;
    };
    for (from, to) in edges {
        world.node(graph, to).into_iter().for_each(|node| node.after.retain(|name| *name != from));
    }
    SUCCESS
}

unsafe fn destroy_node(node: usize) -> u32 {
    let mut world = world();
    let Some(graph) = world.graph_of(node) else { return INVALID_VALUE };
    let nodes = world.graphs.get_mut(&graph).expect("was found");
    nodes.retain(|other| other.name != node);
    nodes.iter_mut().for_each(|other| other.after.retain(|name| *name != node));
    SUCCESS
}

/// Puts another operation of the same kind in the place of a node's.
fn set(node: usize, op: Result<Op, u32>) -> u32 {
    let op = match op {
        Ok(op) => op,
        Err(code) => return code,
    };
    let mut world = world();
    let graph = world.graph_of(node);
    match graph.and_then(|graph| world.node(graph, node)) {
        Some(node) if node.op.kind() == op.kind() => node.op = op,
        _ => return INVALID_VALUE,
    }
    SUCCESS
}

unsafe fn set_kernel(node: usize, params: *const KernelNodeParamsV1) -> u32 {
    // SAFETY: cuGraphKernelNodeSetParams demands that `params` is null or has an address for each
    // parameter of the kernel.
    set(node, unsafe { kernel(params) })
}

/// Attributes of a kernel's node in a graph that can't be launched.
fn attributes(world: &mut World, node: usize) -> Option<&mut Attributes> {
    let graph = world.graph_of(node)?;
    let node = world.node(graph, node).filter(|node| node.op.kind() == 0)?;
    Some(&mut node.attributes)
}

unsafe fn set_attribute(node: usize, attribute: u32, value: *const [u64; 8]) -> u32 {
    // SAFETY: null, or a `CUkernelNodeAttrValue`, which cuGraphKernelNodeSetAttribute demands and
    // which has 64 bytes.
    let Some(value) = (unsafe { value.as_ref() }) else { return INVALID_VALUE };
    let mut world = world();
    let Some(all) = attributes(&mut world, node) else { return INVALID_VALUE };
    all.insert(attribute, *value);
    SUCCESS
}

/// Refused with `REEF_FAKE_NO_COPIES`, as by a driver that doesn't take what is made of the copy.
unsafe fn copy_attributes(to: usize, from: usize) -> u32 {
    if setting("REEF_FAKE_NO_COPIES", 0) != 0 {
        return NOT_SUPPORTED;
    }
    let mut world = world();
    let Some(all) = attributes(&mut world, from).cloned() else { return INVALID_VALUE };
    let Some(to) = attributes(&mut world, to) else { return INVALID_VALUE };
    *to = all;
    SUCCESS
}

unsafe fn set_copy(node: usize, params: *const [usize; 25]) -> u32 {
    // SAFETY: cuGraphMemcpyNodeSetParams demands that `params` is null or a `CUDA_MEMCPY3D`, which
    // has 25 words.
    set(node, unsafe { copy(params) })
}

unsafe fn set_fill(node: usize, params: *const MemsetNodeParams) -> u32 {
    // SAFETY: cuGraphMemsetNodeSetParams demands that `params` is null or a
    // `CUDA_MEMSET_NODE_PARAMS`.
    set(node, unsafe { fill(params) })
}
