//! Graphs that are built node by node.

use super::code::launches::pack;
use super::export::{check, give, plain};
use super::table::table;
use crate::refused::refuse;
use crate::session::session;
use crate::state::functions::Functions;
use crate::state::lock::mint;
use reef_cuda_abi::codes::*;
use reef_cuda_abi::layouts::{KernelNodeParams, KernelNodeParamsV1, UpdateResult};
use reef_remote_calls::{ADD_NODE, Call, KernelNode, SET_EXEC_NODE, SET_NODE};
use reef_wire::little_endian::{U32, U64};
use reef_wire::{Hot, hot_bytes};

plain! {
    cuGraphAddKernelNode(node: *mut u64, graph: u64, after: *const u64, count: usize, params: *const KernelNodeParamsV1) = add_first;
    cuGraphKernelNodeSetParams(node: u64, params: *const KernelNodeParamsV1) = set_first;
    cuGraphExecKernelNodeSetParams(exec: u64, node: u64, params: *const KernelNodeParamsV1) = set_exec_first;
    cuGraphAddKernelNode_v2(node: *mut u64, graph: u64, after: *const u64, count: usize, params: *const KernelNodeParamsV1) = add;
    cuGraphKernelNodeSetParams_v2(node: u64, params: *const KernelNodeParamsV1) = set;
    cuGraphExecKernelNodeSetParams_v2(exec: u64, node: u64, params: *const KernelNodeParamsV1) = set_exec;
    cuGraphInstantiate_v2(exec: *mut u64, graph: u64, error: *mut u64, log: *mut u8, bytes: usize) = instantiate;
    cuGraphExecUpdate_v2(exec: u64, graph: u64, result: *mut UpdateResult) = update;
    cuGraphGetNodes(graph: u64, nodes: *mut u64, count: *mut usize) = nodes;
}

/// Returns the function of a node, or the kernel in its place that the second version may have.
///
/// # Safety
///
/// `params` is of the second version, or `is_first` is true.
unsafe fn function(params: *const KernelNodeParamsV1, is_first: bool) -> u64 {
    // SAFETY: every user of this function passes parameters that can be read. `# Safety` demands
    // the second version unless `is_first`.
    let function = unsafe {
        match (*params).function {
            0 if !is_first => (*params.cast::<KernelNodeParams>()).kernel,
            function => function,
        }
    };
    function as u64
}

unsafe fn send(
    what: u32,
    node: u64,
    of: u64,
    after: &[u64],
    params: *const KernelNodeParamsV1,
    is_first: bool,
) -> Result<(), u32> {
    let session = session()?;
    if params.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and the driver demands parameters of the version that the function's name
    // says, which is what `is_first` tells.
    let (params, function) = unsafe { (&*params, function(params, is_first)) };
    let known = Functions::all().get(function).ok_or(INVALID_HANDLE)?;
    let [grid_x, grid_y, grid_z] = params.grid.map(U32::new);
    let [block_x, block_y, block_z] = params.block.map(U32::new);
    let (list, extra) = (params.params as *const *const u8, params.extra as *const usize);
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
        shared: U32::new(params.shared),
        reserved: U32::new(0),
    };
    let after: Vec<u8> = after.iter().flat_map(|id| id.to_le_bytes()).collect();
    // SAFETY: the driver demands an address for each parameter of the kernel in `params.params`, or
    // a block in `params.extra`.
    unsafe {
        pack(&known, list, extra, |packed| {
            check(session.call(KernelNode::OP, &[hot_bytes(&head), &after, packed])?.0)
        })
    }
}

/// Nodes as an array that a function is given.
///
/// # Errors
///
/// `INVALID_VALUE` for some nodes and no array.
///
/// # Safety
///
/// `after` is null or has `count` nodes, as long as the slice is used.
pub(super) unsafe fn nodes_before<'a>(after: *const u64, count: usize) -> Result<&'a [u64], u32> {
    match count {
        0 => Ok(&[]),
        _ if after.is_null() => Err(INVALID_VALUE),
        // SAFETY: not null, and `# Safety` demands `count` nodes, as long as the slice is used.
        _ => Ok(unsafe { std::slice::from_raw_parts(after, count) }),
    }
}

unsafe fn add_node(
    node: *mut u64,
    graph: u64,
    after: *const u64,
    count: usize,
    params: *const KernelNodeParamsV1,
    is_first: bool,
) -> Result<(), u32> {
    if node.is_null() {
        return Err(INVALID_VALUE);
    }
    let id = mint();
    // SAFETY: the driver demands `count` nodes at `after`, and that `params` is null or of the
    // version that `is_first` tells. `node` is not null and may be written.
    unsafe {
        send(ADD_NODE, id, graph, nodes_before(after, count)?, params, is_first)?;
        give(node, id)
    }
}

unsafe fn add(
    node: *mut u64,
    graph: u64,
    after: *const u64,
    count: usize,
    params: *const KernelNodeParamsV1,
) -> Result<(), u32> {
    // SAFETY: cuGraphAddKernelNode_v2 demands parameters of the second version, `count` nodes at
    // `after`, and that `node` is null or may be written.
    unsafe { add_node(node, graph, after, count, params, false) }
}

unsafe fn add_first(
    node: *mut u64,
    graph: u64,
    after: *const u64,
    count: usize,
    params: *const KernelNodeParamsV1,
) -> Result<(), u32> {
    // SAFETY: cuGraphAddKernelNode demands parameters of the first version, `count` nodes at
    // `after`, and that `node` is null or may be written.
    unsafe { add_node(node, graph, after, count, params, true) }
}

unsafe fn set(node: u64, params: *const KernelNodeParamsV1) -> Result<(), u32> {
    // SAFETY: cuGraphKernelNodeSetParams_v2 demands that `params` is null or of the second version.
    // The node is a number.
    unsafe { send(SET_NODE, node, 0, &[], params, false) }
}

unsafe fn set_first(node: u64, params: *const KernelNodeParamsV1) -> Result<(), u32> {
    // SAFETY: cuGraphKernelNodeSetParams demands that `params` is null or of the first version. The
    // node is a number.
    unsafe { send(SET_NODE, node, 0, &[], params, true) }
}

unsafe fn set_exec(exec: u64, node: u64, params: *const KernelNodeParamsV1) -> Result<(), u32> {
    // SAFETY: cuGraphExecKernelNodeSetParams_v2 demands that `params` is null or of the second
    // version. Handles are numbers.
    unsafe { send(SET_EXEC_NODE, node, exec, &[], params, false) }
}

unsafe fn set_exec_first(
    exec: u64,
    node: u64,
    params: *const KernelNodeParamsV1,
) -> Result<(), u32> {
    // SAFETY: cuGraphExecKernelNodeSetParams demands that `params` is null or of the first version.
    // Handles are numbers.
    unsafe { send(SET_EXEC_NODE, node, exec, &[], params, true) }
}

/// Instantiates. The log stays empty, and an error names no node.
unsafe fn instantiate(
    exec: *mut u64,
    graph: u64,
    error: *mut u64,
    log: *mut u8,
    bytes: usize,
) -> Result<(), u32> {
    if !error.is_null() {
        // SAFETY: not null, and cuGraphInstantiate_v2 demands that `error` may be written.
        unsafe { error.write(0) };
    }
    if !log.is_null() && bytes > 0 {
        // SAFETY: not null, and cuGraphInstantiate_v2 demands `bytes` bytes at `log` that may be
        // written, at least one.
        unsafe { log.write(0) };
    }
    // SAFETY: cuGraphInstantiate_v2 demands that `exec` is null or may be written. The graph is a
    // number.
    unsafe { table(Call::cuGraphInstantiateWithFlags, false, &[exec as usize, graph as usize, 0]) }
}

unsafe fn update(exec: u64, graph: u64, result: *mut UpdateResult) -> Result<(), u32> {
    let mut info = UpdateResult { result: 0, node: 0, from: 0 };
    let args = [exec as usize, graph as usize, &raw mut info as usize];
    // SAFETY: a place of this size.
    let outcome = unsafe { table(Call::cuGraphExecUpdate_v2, false, &args) };
    if !result.is_null() {
        // SAFETY: not null, and cuGraphExecUpdate_v2 demands a `CUgraphExecUpdateResultInfo` that
        // may be written.
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
    // SAFETY: cuGraphGetNodes demands that `count` is null or may be written. No nodes are written,
    // since their place is null.
    unsafe { table(Call::cuGraphGetNodes, false, &args) }
}
