//! Graphs that can be launched. Nodes of one are named by the nodes of the graph that it was made
//! from.

use super::params::{HostParams, copy, fill, host, kernel};
use crate::api::export::{give, plain, ptsz};
use crate::api::streams::{give_to, is_captured, resolve};
use crate::engine::graph::Node;
use crate::engine::op::Op;
use crate::engine::run::is_instant;
use crate::engine::world::{World, world};
use reef_cuda_abi::codes::*;
use reef_cuda_abi::layouts::{KernelNodeParamsV1, MemsetNodeParams, NodeParams, UpdateResult};

plain! {
    cuGraphInstantiateWithFlags(exec: *mut usize, graph: usize, flags: u64) = instantiate;
    cuGraphInstantiate_v2(exec: *mut usize, graph: usize, error: *mut usize, log: usize, bytes: usize) = instantiate_v2;
    cuGraphExecDestroy(exec: usize) = destroy;
    cuGraphExecUpdate(exec: usize, graph: usize, error: *mut usize, result: *mut u32) = update;
    cuGraphExecUpdate_v2(exec: usize, graph: usize, result: *mut UpdateResult) = update_v2;
    cuGraphExecKernelNodeSetParams_v2(exec: usize, node: usize, params: *const KernelNodeParamsV1) = set_kernel;
    cuGraphExecKernelNodeSetParams(exec: usize, node: usize, params: *const KernelNodeParamsV1) = set_kernel;
    cuGraphExecMemcpyNodeSetParams(exec: usize, node: usize, params: *const [usize; 25], context: usize) = set_copy;
    cuGraphExecMemsetNodeSetParams(exec: usize, node: usize, params: *const MemsetNodeParams, context: usize) = set_fill;
    cuGraphExecHostNodeSetParams(exec: usize, node: usize, params: *const HostParams) = set_host;
    cuGraphExecNodeSetParams(exec: usize, node: usize, params: *mut NodeParams) = set_any;
    cuGraphExecChildGraphNodeSetParams(exec: usize, node: usize, child: usize) = set_child;
    cuGraphNodeSetEnabled(exec: usize, node: usize, is_enabled: u32) = set_enabled;
    cuGraphNodeGetEnabled(exec: usize, node: usize, is_enabled: *mut u32) = is_enabled;
    reef_fake_refuse_sets(first: u64, count: u64) = refuse_sets;
    reef_fake_end_exec(exec: usize) = end;
}

ptsz! {
    cuGraphInstantiateWithParams / cuGraphInstantiateWithParams_ptsz(exec: *mut usize, graph: usize, params: *mut Instantiation) = instantiate_with;
    cuGraphLaunch / cuGraphLaunch_ptsz(exec: usize, stream: usize) = launch;
    cuGraphUpload / cuGraphUpload_ptsz(exec: usize, stream: usize) = upload;
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[repr(C)]
#[derive(Debug)]
struct Instantiation {
    flags: u64,
    stream: usize,
    error: usize,
    result: u32,
}

/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`.
const FROM_DEVICE: u64 = 4;

unsafe fn instantiate(exec: *mut usize, graph: usize, flags: u64) -> u32 {
    let mut world = world();
    if world.execs.contains(&graph) || world.moved.contains(&graph) {
        return INVALID_VALUE;
    }
    if world.has_forbidden(graph) {
        return INVALID_VALUE;
    }
    if flags & FROM_DEVICE != 0 && world.has_operations(graph) {
        return NOT_SUPPORTED;
    }
    let Some(copy) = world.copy(graph, true) else { return INVALID_VALUE };
    // SAFETY: functions that instantiate demand that `exec` may be written; null is left out.
    unsafe { give(exec, copy) };
    SUCCESS
}

unsafe fn instantiate_v2(
    exec: *mut usize,
    graph: usize,
    error: *mut usize,
    _log: usize,
    _bytes: usize,
) -> u32 {
    // SAFETY: cuGraphInstantiate_v2 demands that `exec` and `error` may be written; null is left
    // out. The log is not written.
    unsafe {
        give(error, 0);
        instantiate(exec, graph, 0)
    }
}

/// `CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD`.
const UPLOAD: u64 = 2;

unsafe fn instantiate_with(
    is_ptsz: bool,
    exec: *mut usize,
    graph: usize,
    params: *mut Instantiation,
) -> u32 {
    // SAFETY: cuGraphInstantiateWithParams demands that `params` and `exec` may be read and
    // written, and `exec` has a handle when `instantiate` succeeds.
    unsafe {
        let mut code = instantiate(exec, graph, (*params).flags);
        if code == SUCCESS && (*params).flags & UPLOAD != 0 {
            code = upload(is_ptsz, *exec, (*params).stream);
        }
        (*params).error = 0;
        (*params).result = u32::from(code != SUCCESS);
        code
    }
}

unsafe fn destroy(exec: usize) -> u32 {
    let mut world = world();
    world.end_exec(exec);
    let is_known = world.execs.remove(&exec) && world.forget(exec);
    if is_known { SUCCESS } else { INVALID_VALUE }
}

/// Destroys a graph whose handle comes back: that of a context that has ended, for instance.
unsafe fn end(exec: usize) -> u32 {
    // SAFETY: `destroy` takes a number, and refuses one that names no executable graph.
    let code = unsafe { destroy(exec) };
    if code == SUCCESS {
        world().ended_exec = Some(exec);
    }
    code
}

unsafe fn update(exec: usize, graph: usize, error: *mut usize, result: *mut u32) -> u32 {
    let mut world = world();
    let is_known = world.execs.contains(&exec) && world.graphs.contains_key(&graph);
    if !is_known || world.moved.contains(&graph) {
        return INVALID_VALUE;
    }
    let updated = world.update(exec, graph);
    // SAFETY: cuGraphExecUpdate demands that `error` and `result` may be written; null is left out.
    unsafe {
        give(error, updated.err().unwrap_or(0));
        give(result, if updated.is_ok() { 0 } else { 2 });
    }
    if updated.is_ok() { SUCCESS } else { UPDATE_FAILED }
}

unsafe fn update_v2(exec: usize, graph: usize, result: *mut UpdateResult) -> u32 {
    // SAFETY: cuGraphExecUpdate_v2 demands a `CUgraphExecUpdateResultInfo` that may be written. Its
    // fields' addresses are passed on.
    unsafe { update(exec, graph, &raw mut (*result).node, &raw mut (*result).result) }
}

/// Refuses calls that set a node of an executable graph, of those that follow: 1 is the next one.
unsafe fn refuse_sets(first: u64, count: u64) -> u32 {
    let mut world = world();
    (world.sets, world.refused_sets) = (0, first..first + count);
    SUCCESS
}

/// Puts another operation in the place of a node's.
fn set(exec: usize, node: usize, op: Result<Op, u32>) -> u32 {
    let op = match op {
        Ok(op) => op,
        Err(code) => return code,
    };
    let mut world = world();
    if !world.execs.contains(&exec) {
        return INVALID_VALUE;
    }
    world.sets += 1;
    if world.refused_sets.contains(&world.sets) {
        return OUT_OF_MEMORY;
    }
    match world.node(exec, node) {
        Some(node) if node.op.kind() == op.kind() => node.op = op,
        _ => return INVALID_VALUE,
    }
    SUCCESS
}

/// Kernels, copies and fills of an executable graph may be disabled.
fn switchable(world: &mut World, exec: usize, node: usize) -> Option<&mut Node> {
    let is_exec = world.execs.contains(&exec);
    world.node(exec, node).filter(|node| is_exec && matches!(node.op.kind(), 0..=2))
}

unsafe fn set_enabled(exec: usize, node: usize, is_enabled: u32) -> u32 {
    let mut world = world();
    let Some(node) = switchable(&mut world, exec, node) else { return INVALID_VALUE };
    node.is_disabled = is_enabled == 0;
    SUCCESS
}

unsafe fn is_enabled(exec: usize, node: usize, is_enabled: *mut u32) -> u32 {
    let mut world = world();
    let Some(node) = switchable(&mut world, exec, node) else { return INVALID_VALUE };
    // SAFETY: cuGraphNodeGetEnabled demands that `is_enabled` may be written; null is left out.
    unsafe { give(is_enabled, u32::from(!node.is_disabled)) };
    SUCCESS
}

unsafe fn set_kernel(exec: usize, node: usize, params: *const KernelNodeParamsV1) -> u32 {
    // SAFETY: cuGraphExecKernelNodeSetParams demands that `params` is null or has an address for
    // each parameter of the kernel.
    set(exec, node, unsafe { kernel(params) })
}

unsafe fn set_fill(
    exec: usize,
    node: usize,
    params: *const MemsetNodeParams,
    _context: usize,
) -> u32 {
    // SAFETY: cuGraphExecMemsetNodeSetParams demands that `params` is null or a
    // `CUDA_MEMSET_NODE_PARAMS`.
    set(exec, node, unsafe { fill(params) })
}

unsafe fn set_copy(exec: usize, node: usize, params: *const [usize; 25], _context: usize) -> u32 {
    // SAFETY: cuGraphExecMemcpyNodeSetParams demands that `params` is null or a `CUDA_MEMCPY3D`,
    // which has 25 words.
    set(exec, node, unsafe { copy(params) })
}

unsafe fn set_host(exec: usize, node: usize, params: *const HostParams) -> u32 {
    // SAFETY: cuGraphExecHostNodeSetParams demands that `params` is null or a
    // `CUDA_HOST_NODE_PARAMS` with a function.
    set(exec, node, unsafe { host(params) })
}

unsafe fn set_any(exec: usize, node: usize, params: *mut NodeParams) -> u32 {
    // SAFETY: cuGraphExecNodeSetParams demands that `params` is null or a `CUgraphNodeParams`,
    // whose words are the struct of its kind.
    unsafe {
        match params.as_ref() {
            Some(NodeParams { kind: 0, words, .. }) => {
                set_kernel(exec, node, words.as_ptr().cast())
            }
            Some(NodeParams { kind: 4, words, .. }) => set_child(exec, node, words[0]),
            Some(NodeParams { kind: 10 | 11, .. }) => NOT_SUPPORTED, // memory can't be changed
            _ => INVALID_VALUE,
        }
    }
}

/// As an update by a graph: the shape stays, and memory may be larger.
unsafe fn set_child(exec: usize, node: usize, child: usize) -> u32 {
    let mut world = world();
    let inner = world.node(exec, node).and_then(|node| node.op.child());
    let (true, Some(inner)) = (world.graphs.contains_key(&child), inner) else {
        return INVALID_VALUE;
    };
    if world.update(inner, child).is_ok() { SUCCESS } else { UPDATE_FAILED }
}

unsafe fn launch(is_ptsz: bool, exec: usize, stream: usize) -> u32 {
    if !world().execs.contains(&exec) {
        return INVALID_VALUE;
    }
    if is_captured(is_ptsz, stream) || is_instant() {
        return give_to(is_ptsz, stream, Op::Graph(exec));
    }
    if let Err(code) = back(is_ptsz, exec, stream) {
        return code;
    }
    world().graph_memory.begin(exec);
    let code = give_to(is_ptsz, stream, Op::Graph(exec));
    if code != SUCCESS {
        world().graph_memory.end(exec);
    }
    code
}

/// Takes the graph's memory, as its first launch would.
unsafe fn upload(is_ptsz: bool, exec: usize, stream: usize) -> u32 {
    if !world().execs.contains(&exec) {
        return INVALID_VALUE;
    }
    match back(is_ptsz, exec, stream) {
        Ok(()) => give_to(is_ptsz, stream, Op::Empty),
        Err(code) => code,
    }
}

/// Takes the memory that a graph needs in a stream.
fn back(is_ptsz: bool, exec: usize, stream: usize) -> Result<(), u32> {
    let mut world = world();
    let stream = resolve(&mut world, is_ptsz, stream)?;
    if world.back(exec, stream) { Ok(()) } else { Err(OUT_OF_MEMORY) }
}
