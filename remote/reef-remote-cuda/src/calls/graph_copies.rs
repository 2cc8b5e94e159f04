//! Nodes of graphs that copy inside the device.

use super::export::{check, give, plain};
use super::graphs::nodes_before;
use crate::refused::refuse;
use crate::session::session;
use crate::state::lock::mint;
use reef_cuda_abi::codes::*;
use reef_cuda_abi::layouts::{Memcpy3D, Memcpy3DSide};
use reef_cuda_abi::memory_types::DEVICE;
use reef_remote_calls::{ADD_NODE, BOX_WORDS, CopyNode, SET_EXEC_NODE, SET_NODE};
use reef_wire::little_endian::{U32, U64};
use reef_wire::{Hot, hot_bytes};

plain! {
    cuGraphAddMemcpyNode(node: *mut u64, graph: u64, after: *const u64, count: usize, copy: *const Memcpy3D, context: u64) = add;
    cuGraphMemcpyNodeSetParams(node: u64, copy: *const Memcpy3D) = set;
    cuGraphExecMemcpyNodeSetParams(exec: u64, node: u64, copy: *const Memcpy3D, context: u64) = set_exec;
}

fn words(side: &Memcpy3DSide) -> [u64; 7] {
    let [x, y, z, level] = side.corner;
    [x, y, z, level, side.device, side.pitch, side.height].map(|word| word as u64)
}

unsafe fn send(head: [u64; 3], what: u32, after: &[u64], copy: *const Memcpy3D) -> Result<(), u32> {
    let session = session()?;
    if copy.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and the driver demands a `CUDA_MEMCPY3D`, which the program does not change
    // during the call.
    let copy = unsafe { &*copy };
    if [copy.from.kind, copy.to.kind] != [DEVICE; 2] {
        return Err(refuse(c"a node that copies from or to memory other than the device's"));
    }
    let [node, of, context] = head.map(U64::new);
    let (what, count) = (U32::new(what), U32::new(after.len() as u32));
    let head = CopyNode { what, after: count, node, of, context };
    let mut all = [0; BOX_WORDS];
    all[..7].copy_from_slice(&words(&copy.from));
    all[7..14].copy_from_slice(&words(&copy.to));
    all[14..].copy_from_slice(&copy.size.map(|word| word as u64));
    let body: Vec<u8> = after.iter().chain(&all).flat_map(|word| word.to_le_bytes()).collect();
    check(session.call(CopyNode::OP, &[hot_bytes(&head), &body])?.0)
}

unsafe fn add(
    node: *mut u64,
    graph: u64,
    after: *const u64,
    count: usize,
    copy: *const Memcpy3D,
    context: u64,
) -> Result<(), u32> {
    if node.is_null() {
        return Err(INVALID_VALUE);
    }
    let id = mint();
    // SAFETY: cuGraphAddMemcpyNode demands `count` nodes at `after`, and that `copy` is null or a
    // `CUDA_MEMCPY3D`. `node` is not null and may be written.
    unsafe {
        send([id, graph, context], ADD_NODE, nodes_before(after, count)?, copy)?;
        give(node, id)
    }
}

unsafe fn set(node: u64, copy: *const Memcpy3D) -> Result<(), u32> {
    // SAFETY: cuGraphMemcpyNodeSetParams demands that `copy` is null or a `CUDA_MEMCPY3D`. The node
    // is a number.
    unsafe { send([node, 0, 0], SET_NODE, &[], copy) }
}

unsafe fn set_exec(exec: u64, node: u64, copy: *const Memcpy3D, context: u64) -> Result<(), u32> {
    // SAFETY: cuGraphExecMemcpyNodeSetParams demands that `copy` is null or a `CUDA_MEMCPY3D`.
    // Handles are numbers.
    unsafe { send([node, exec, context], SET_EXEC_NODE, &[], copy) }
}
