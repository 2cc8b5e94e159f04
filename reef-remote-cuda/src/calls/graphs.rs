//! Graphs that are built node by node.

use super::code::launches::pack;
use super::export::{check, give, plain};
use super::table::table;
use crate::codes::*;
use crate::refused::refuse;
use crate::session::session;
use crate::state::functions::Functions;
use crate::state::lock::mint;
use reef_remote_calls::{ADD_NODE, Call, KernelNode, SET_EXEC_NODE, SET_NODE};
use reef_wire::little_endian::{U32, U64};
use reef_wire::{Hot, hot_bytes};

plain! {
    cuGraphAddKernelNode_v2(node: *mut u64, graph: u64, after: *const u64, count: usize, params: *const NodeParams) = add;
    cuGraphKernelNodeSetParams_v2(node: u64, params: *const NodeParams) = set;
    cuGraphExecKernelNodeSetParams_v2(exec: u64, node: u64, params: *const NodeParams) = set_exec;
    cuGraphExecUpdate_v2(exec: u64, graph: u64, result: *mut UpdateResult) = update;
    cuGraphGetNodes(graph: u64, nodes: *mut u64, count: *mut usize) = nodes;
}

/// `CUDA_KERNEL_NODE_PARAMS`, second version.
#[repr(C)]
struct NodeParams {
    function: u64,
    sizes: [u32; 7],
    params: *const *const u8,
    extra: *const usize,
    kernel: u64,
    context: u64,
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
struct UpdateResult {
    result: u32,
    node: u64,
    from: u64,
}

unsafe fn send(
    what: u32,
    node: u64,
    of: u64,
    after: &[u64],
    params: *const NodeParams,
) -> Result<(), u32> {
    let session = session()?;
    if params.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let params = unsafe { &*params };
    let function = if params.function == 0 { params.kernel } else { params.function };
    let known = Functions::all().get(function).ok_or(INVALID_HANDLE)?;
    let [grid_x, grid_y, grid_z, block_x, block_y, block_z, shared] = params.sizes.map(U32::new);
    let head = KernelNode {
        what: U32::new(what),
        after: U32::new(after.len() as u32),
        node: U64::new(node),
        of: U64::new(of),
        function: U64::new(function),
        grid_x,
        grid_y,
        grid_z,
        block_x,
        block_y,
        block_z,
        shared,
        reserved: U32::new(0),
    };
    let after: Vec<u8> = after.iter().flat_map(|id| id.to_le_bytes()).collect();
    // SAFETY: the caller's promise.
    unsafe {
        pack(&known, params.params, params.extra, |packed| {
            check(session.call(KernelNode::OP, &[hot_bytes(&head), &after, packed])?.0)
        })
    }
}

unsafe fn add(
    node: *mut u64,
    graph: u64,
    after: *const u64,
    count: usize,
    params: *const NodeParams,
) -> Result<(), u32> {
    if node.is_null() || after.is_null() && count > 0 {
        return Err(INVALID_VALUE);
    }
    let after = match count {
        0 => &[],
        // SAFETY: the caller's promise: `count` nodes.
        _ => unsafe { std::slice::from_raw_parts(after, count) },
    };
    let id = mint();
    // SAFETY: the caller's promise.
    unsafe {
        send(ADD_NODE, id, graph, after, params)?;
        give(node, id)
    }
}

unsafe fn set(node: u64, params: *const NodeParams) -> Result<(), u32> {
    // SAFETY: the caller's promise.
    unsafe { send(SET_NODE, node, 0, &[], params) }
}

unsafe fn set_exec(exec: u64, node: u64, params: *const NodeParams) -> Result<(), u32> {
    // SAFETY: the caller's promise.
    unsafe { send(SET_EXEC_NODE, node, exec, &[], params) }
}

unsafe fn update(exec: u64, graph: u64, result: *mut UpdateResult) -> Result<(), u32> {
    let mut info = UpdateResult { result: 0, node: 0, from: 0 };
    let args = [exec as usize, graph as usize, &raw mut info as usize];
    // SAFETY: a place of this size.
    let outcome = unsafe { table(Call::cuGraphExecUpdate_v2, false, &args) };
    if !result.is_null() {
        // SAFETY: the caller's promise.
        unsafe { result.write(info) };
    }
    outcome
}

/// Tells how many nodes there are.
unsafe fn nodes(graph: u64, nodes: *mut u64, count: *mut usize) -> Result<(), u32> {
    if !nodes.is_null() {
        return Err(refuse(c"cuGraphGetNodes with a place for nodes"));
    }
    let args = [graph as usize, 0, count as usize];
    // SAFETY: the caller's promise.
    unsafe { table(Call::cuGraphGetNodes, false, &args) }
}
