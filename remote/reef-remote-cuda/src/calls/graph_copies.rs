//! Nodes of graphs that copy inside the device.

use super::export::{check, give, plain};
use super::graphs::nodes_before;
use crate::refused::refuse;
use crate::session::session;
use crate::state::lock::mint;
use reef_cuda_abi::codes::*;
use reef_remote_calls::{ADD_NODE, BOX_WORDS, CopyNode, SET_EXEC_NODE, SET_NODE};
use reef_wire::little_endian::{U32, U64};
use reef_wire::{Hot, hot_bytes};

plain! {
    cuGraphAddMemcpyNode(node: *mut u64, graph: u64, after: *const u64, count: usize, copy: *const Copy3, context: u64) = add;
    cuGraphMemcpyNodeSetParams(node: u64, copy: *const Copy3) = set;
    cuGraphExecMemcpyNodeSetParams(exec: u64, node: u64, copy: *const Copy3, context: u64) = set_exec;
}

/// `CU_MEMORYTYPE_DEVICE`.
const DEVICE: u32 = 2;

/// `CUDA_MEMCPY3D`.
#[repr(C)]
struct Copy3 {
    from: Side,
    to: Side,
    size: [u64; 3],
}

/// A side of the copy.
#[repr(C)]
struct Side {
    /// X in bytes, y, z, level of detail.
    place: [u64; 4],
    memory: u32,
    host: u64,
    device: u64,
    array: u64,
    reserved: u64,
    /// Bytes of a row, rows of a slice.
    pitch: [u64; 2],
}

impl Side {
    fn words(&self) -> [u64; 7] {
        let [x, y, z, level] = self.place;
        [x, y, z, level, self.device, self.pitch[0], self.pitch[1]]
    }
}

unsafe fn send(head: [u64; 3], what: u32, after: &[u64], copy: *const Copy3) -> Result<(), u32> {
    let session = session()?;
    if copy.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and the driver demands a `CUDA_MEMCPY3D`, which the program does not change
    // during the call.
    let copy = unsafe { &*copy };
    if [copy.from.memory, copy.to.memory] != [DEVICE; 2] {
        return Err(refuse(c"a node that copies from or to memory other than the device's"));
    }
    let [node, of, context] = head.map(U64::new);
    let (what, count) = (U32::new(what), U32::new(after.len() as u32));
    let head = CopyNode { what, after: count, node, of, context };
    let mut words = [0; BOX_WORDS];
    words[..7].copy_from_slice(&copy.from.words());
    words[7..14].copy_from_slice(&copy.to.words());
    words[14..].copy_from_slice(&copy.size);
    let body: Vec<u8> = after.iter().chain(&words).flat_map(|word| word.to_le_bytes()).collect();
    check(session.call(CopyNode::OP, &[hot_bytes(&head), &body])?.0)
}

unsafe fn add(
    node: *mut u64,
    graph: u64,
    after: *const u64,
    count: usize,
    copy: *const Copy3,
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

unsafe fn set(node: u64, copy: *const Copy3) -> Result<(), u32> {
    // SAFETY: cuGraphMemcpyNodeSetParams demands that `copy` is null or a `CUDA_MEMCPY3D`. The node
    // is a number.
    unsafe { send([node, 0, 0], SET_NODE, &[], copy) }
}

unsafe fn set_exec(exec: u64, node: u64, copy: *const Copy3, context: u64) -> Result<(), u32> {
    // SAFETY: cuGraphExecMemcpyNodeSetParams demands that `copy` is null or a `CUDA_MEMCPY3D`.
    // Handles are numbers.
    unsafe { send([node, exec, context], SET_EXEC_NODE, &[], copy) }
}
