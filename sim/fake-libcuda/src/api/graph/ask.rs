//! Questions about graphs.

use crate::api::export::{give, plain};
use crate::engine::op::Op;
use crate::engine::world::{World, world};
use reef_cuda_abi::codes::*;
use reef_cuda_abi::layouts::{
    BatchMemOp, BatchMemOpNodeParams, KernelNodeParams, KernelNodeParamsV1,
};

plain! {
    cuGraphGetNodes(graph: usize, nodes: *mut usize, count: *mut usize) = nodes;
    cuGraphGetEdges(graph: usize, from: *mut usize, to: *mut usize, count: *mut usize) = edges;
    cuGraphGetEdges_v2(graph: usize, from: *mut usize, to: *mut usize, data: *mut u64, count: *mut usize) = edges_with_data;
    cuGraphNodeGetType(node: usize, kind: *mut u32) = kind;
    cuGraphKernelNodeGetParams_v2(node: usize, params: *mut KernelNodeParams) = kernel;
    cuGraphKernelNodeGetAttribute(node: usize, attribute: u32, value: *mut [u64; 8]) = attribute;
    cuGraphBatchMemOpNodeGetParams(node: usize, params: *mut BatchMemOpNodeParams) = mem_op;
    cuGraphMemFreeNodeGetParams(node: usize, at: *mut usize) = end_of_memory;
    cuGraphMemAllocNodeGetParams(node: usize, params: *mut [usize; 15]) = memory;
    cuGraphChildGraphNodeGetGraph(node: usize, child: *mut usize) = child;
    cuGraphNodeFindInClone(node: *mut usize, original: usize, clone: usize) = find_in_clone;
    reef_fake_endless_graph(graph: usize) = endless;
}

/// Operation of a node.
fn op(world: &mut World, node: usize) -> Result<Op, u32> {
    let graph = world.graph_of(node).ok_or(INVALID_VALUE)?;
    world.node(graph, node).map(|node| node.op).ok_or(INVALID_VALUE)
}

/// Fills a list of the program's, or says how long it has to be.
unsafe fn list(values: &[usize], to: *mut usize, count: *mut usize) {
    // SAFETY: the driver demands that `count` may be read and written, and that a list that is not
    // null has room for `count` entries. No more are written.
    unsafe {
        let room = if to.is_null() { 0 } else { (*count).min(values.len()) };
        values.iter().take(room).enumerate().for_each(|(at, value)| to.add(at).write(*value));
        give(count, if to.is_null() { values.len() } else { room });
    }
}

/// Has a graph say that it has more nodes than any memory, on which the shim panics.
unsafe fn endless(graph: usize) -> u32 {
    world().endless = graph;
    SUCCESS
}

unsafe fn nodes(handle: usize, nodes: *mut usize, count: *mut usize) -> u32 {
    let world = world();
    let Some(graph) = world.graphs.get(&handle) else { return INVALID_VALUE };
    let names: Vec<_> = graph.iter().map(|node| node.name).collect();
    // SAFETY: cuGraphGetNodes demands a number at `count`, and that `nodes` is null or has room for
    // as many.
    unsafe { list(&names, nodes, count) };
    if world.endless == handle {
        // SAFETY: cuGraphGetNodes demands that `count` may be written; null is left out.
        unsafe { give(count, usize::MAX) };
    }
    SUCCESS
}

unsafe fn edges(graph: usize, from: *mut usize, to: *mut usize, count: *mut usize) -> u32 {
    let world = world();
    let Some(graph) = world.graphs.get(&graph) else { return INVALID_VALUE };
    let edges = graph.iter().flat_map(|node| node.after.iter().map(|from| (*from, node.name)));
    let (froms, tos): (Vec<_>, Vec<_>) = edges.unzip();
    // SAFETY: cuGraphGetEdges demands a number at `count`, and that `from` and `to` are null or
    // have room for as many. `room` is a local.
    unsafe {
        let mut room = *count;
        list(&froms, from, &raw mut room);
        list(&tos, to, count);
    }
    SUCCESS
}

unsafe fn edges_with_data(
    graph: usize,
    from: *mut usize,
    to: *mut usize,
    data: *mut u64,
    count: *mut usize,
) -> u32 {
    // SAFETY: cuGraphGetEdges demands a number at `count`, and that all three lists are null or
    // have room for as many. `edges` has set `count` to the edges that were written.
    unsafe {
        let code = edges(graph, from, to, count);
        if code == SUCCESS && !data.is_null() {
            let world = world();
            let edges =
                world.graphs[&graph].iter().flat_map(|node| vec![node.overlaps; node.after.len()]);
            // The third byte: CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC.
            let edges = edges.map(|overlaps| u64::from(overlaps) << 16).take(*count);
            edges.enumerate().for_each(|(at, edge)| data.add(at).write(edge));
        }
        code
    }
}

unsafe fn kind(node: usize, kind: *mut u32) -> u32 {
    match op(&mut world(), node) {
        // SAFETY: cuGraphNodeGetType demands that `kind` may be written; null is left out.
        Ok(op) => unsafe { give(kind, op.kind()) },
        Err(code) => return code,
    }
    SUCCESS
}

unsafe fn kernel(node: usize, params: *mut KernelNodeParams) -> u32 {
    let mut world = world();
    let (grid, block) = ([1; 3], [1; 3]);
    let none = KernelNodeParamsV1 { function: 0, grid, block, shared: 0, params: 0, extra: 0 };
    let known = match op(&mut world, node) {
        Ok(Op::Kernel(..)) => KernelNodeParams { first: none, kernel: 0, context: 1 },
        Ok(Op::Blocks(number)) => {
            let launched = &world.launched[&number];
            // The driver's, for as long as the node is there: here for ever.
            let bytes = Box::leak(launched.grid.parameters.clone().into_boxed_slice());
            let places = launched.entry.parameters.iter();
            let at = |(offset, _): &(usize, usize)| bytes[*offset..].as_ptr().cast::<u64>();
            let params = Box::leak(places.map(at).collect::<Box<_>>()).as_ptr() as usize;
            let function = world.functions.get(&launched.function).copied();
            let (function, shared) = (function.unwrap_or(launched.function), launched.shared);
            let (grid, block) = (launched.grid.blocks, launched.grid.threads);
            let context = launched.context;
            let first = KernelNodeParamsV1 { function, grid, block, shared, params, extra: 0 };
            KernelNodeParams { first, kernel: 0, context }
        }
        _ => return INVALID_VALUE,
    };
    // SAFETY: cuGraphKernelNodeGetParams_v2 demands that `params` may be written; null is left out.
    unsafe { give(params, known) };
    SUCCESS
}

unsafe fn attribute(node: usize, attribute: u32, value: *mut [u64; 8]) -> u32 {
    let mut world = world();
    let Some(graph) = world.graph_of(node) else { return INVALID_VALUE };
    let known = world.node(graph, node).filter(|node| node.op.kind() == 0);
    let Some(known) = known else { return INVALID_VALUE };
    let known = known.attributes.get(&attribute).copied().unwrap_or_default();
    // SAFETY: cuGraphKernelNodeGetAttribute demands that `value` may be written; null is left out.
    unsafe { give(value, known) };
    SUCCESS
}

unsafe fn mem_op(node: usize, params: *mut BatchMemOpNodeParams) -> u32 {
    let (operation, at, value, flags) = match op(&mut world(), node) {
        Ok(Op::Wait { at, value, flags }) => (1, at, value, flags),
        Ok(Op::Write(at, value)) => (2, at, value, 0),
        _ => return INVALID_VALUE,
    };
    // The driver owns the list, for as long as the node is there: here for ever.
    let (at, value) = (at as u64, u64::from(value));
    let op = BatchMemOp { operation, at, value, flags, rest: [0; 2] };
    let ops = Box::leak(Box::new(op));
    // SAFETY: cuGraphBatchMemOpNodeGetParams demands that `params` may be written; null is left
    // out. Its list is leaked, so it stays.
    unsafe { give(params, BatchMemOpNodeParams { context: 1, count: 1, ops, flags: 0 }) };
    SUCCESS
}

unsafe fn end_of_memory(node: usize, at: *mut usize) -> u32 {
    let Ok(Op::Free(address)) = op(&mut world(), node) else { return INVALID_VALUE };
    // SAFETY: cuGraphMemFreeNodeGetParams demands that `at` may be written; null is left out.
    unsafe { give(at, address) };
    SUCCESS
}

unsafe fn memory(node: usize, params: *mut [usize; 15]) -> u32 {
    let mut world = world();
    let Ok(Op::Memory { at, bytes }) = op(&mut world, node) else { return INVALID_VALUE };
    let mut words = [0; 15];
    let location = if world.is_of_host(at) { 2 } else { 1 }; // the host, or the first device
    (words[1], words[13], words[14]) = (location, bytes as usize, at);
    // SAFETY: cuGraphMemAllocNodeGetParams demands `CUDA_MEM_ALLOC_NODE_PARAMS` that may be
    // written, which have 15 words; null is left out.
    unsafe { give(params, words) };
    SUCCESS
}

unsafe fn child(node: usize, child: *mut usize) -> u32 {
    let Ok(Op::Child(inner)) = op(&mut world(), node) else { return INVALID_VALUE };
    // SAFETY: cuGraphChildGraphNodeGetGraph demands that `child` may be written; null is left out.
    unsafe { give(child, inner) };
    SUCCESS
}

unsafe fn find_in_clone(node: *mut usize, original: usize, clone: usize) -> u32 {
    let world = world();
    let nodes = world.graphs.get(&clone).into_iter().flatten();
    let found = nodes.into_iter().find(|node| node.origin == original && original != 0);
    let Some(found) = found else { return INVALID_VALUE };
    // SAFETY: cuGraphNodeFindInClone demands that `node` may be written; null is left out.
    unsafe { give(node, found.name) };
    SUCCESS
}
