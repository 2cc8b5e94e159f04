//! The driver's structs from which nodes of graphs are made, as operations.

use crate::api::current;
use crate::engine::blocks::Launched;
use crate::engine::op::{Kernel, Op};
use crate::engine::world::world;
use reef_cuda_abi::codes::*;
use std::sync::Arc;

/// `CUDA_KERNEL_NODE_PARAMS`, as far as it is read.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct KernelParams {
    pub(crate) function: usize,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) params: *const *const u64,
    pub(crate) extra: usize,
    /// From here on not in the first version: a library's kernel, and its context.
    pub(crate) kernel: usize,
    pub(crate) context: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct FillParams {
    to: usize,
    pitch: usize,
    value: u32,
    element: u32,
    width: usize,
    height: usize,
}

/// `CUDA_HOST_NODE_PARAMS`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct HostParams {
    function: extern "C" fn(usize),
    data: usize,
}

/// `CUstreamBatchMemOpParams`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct MemOp {
    pub(crate) operation: u32,
    pub(crate) at: usize,
    pub(crate) value: u64,
    pub(crate) flags: u32,
    pub(crate) rest: [u64; 2],
}

/// `CUDA_BATCH_MEM_OP_NODE_PARAMS`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct MemOps {
    pub(crate) context: usize,
    pub(crate) count: u32,
    pub(crate) ops: *const MemOp,
    pub(crate) flags: u32,
}

/// `CUgraphNodeParams`: a kind, and what a node of that kind is made from.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct AnyParams {
    pub(crate) kind: u32,
    reserved: [u32; 3],
    pub(crate) words: [usize; 29],
}

/// A kernel with its arguments.
///
/// # Safety
///
/// `params` is null, or has an address for each argument that the kernel takes. A kernel that is
/// not in PTX takes two of 64 bits.
pub(crate) unsafe fn kernel(params: *const KernelParams) -> Result<Op, u32> {
    // SAFETY: null, or the params that `# Safety` demands. Of these only fields of the first
    // version are read.
    let params = unsafe { params.as_ref() }.ok_or(INVALID_VALUE)?;
    let entry = world().entries.get(&params.function).cloned();
    if let Some(entry) = entry.filter(|_| !params.grid.contains(&0)) {
        let handles = [params.function, current::handle()];
        let sides = [params.grid, params.block];
        // SAFETY: `# Safety` demands an address of each parameter of a kernel in PTX, which
        // `Launched::new` copies.
        let launched =
            unsafe { Launched::new(entry, handles, sides, params.shared, params.params) };
        let mut world = world();
        let number = world.number();
        world.launched.insert(number, Arc::new(launched.ok_or(INVALID_VALUE)?));
        return Ok(Op::Blocks(number));
    }
    let kernel = world().names.get(&params.function).and_then(|name| Kernel::named(name));
    let kernel = kernel.ok_or(INVALID_HANDLE)?;
    if params.params.is_null() || params.grid.contains(&0) {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and `# Safety` demands addresses of two parameters of 64 bits for a kernel
    // that is not in PTX.
    let (to, value) = unsafe { (**params.params, **params.params.add(1)) };
    Ok(Op::Kernel(kernel, to, value))
}

/// Bytes that are set.
///
/// # Safety
///
/// `params` is null, or a `CUDA_MEMSET_NODE_PARAMS`.
pub(crate) unsafe fn fill(params: *const FillParams) -> Result<Op, u32> {
    // SAFETY: null, or a `CUDA_MEMSET_NODE_PARAMS`, which `# Safety` demands.
    let FillParams { to, value, width, .. } = *unsafe { params.as_ref() }.ok_or(INVALID_VALUE)?;
    Ok(Op::Fill { to, value: value as u8, bytes: width })
}

/// A copy: `CUDA_MEMCPY3D` as words, of which bytes in a row are read.
///
/// # Safety
///
/// `params` is null, or a `CUDA_MEMCPY3D` of 25 words.
pub(crate) unsafe fn copy(params: *const [usize; 25]) -> Result<Op, u32> {
    // SAFETY: null, or a `CUDA_MEMCPY3D` of 25 words, which `# Safety` demands.
    let words = unsafe { params.as_ref() }.ok_or(INVALID_VALUE)?;
    let (from, to) = (words[6].wrapping_add(words[0]), words[17].wrapping_add(words[11]));
    Ok(Op::Copy { to, from, bytes: words[22] })
}

/// A call of the host's.
///
/// # Safety
///
/// `params` is null, or a `CUDA_HOST_NODE_PARAMS` with a function.
pub(crate) unsafe fn host(params: *const HostParams) -> Result<Op, u32> {
    // SAFETY: null, or a `CUDA_HOST_NODE_PARAMS` with a function, which `# Safety` demands.
    let HostParams { function, data } = *unsafe { params.as_ref() }.ok_or(INVALID_VALUE)?;
    Ok(Op::Host(function, data))
}

/// A wait or a write: the first of the list alone.
///
/// # Safety
///
/// `params` is null, or its list is null or has at least one operation.
pub(crate) unsafe fn mem_op(params: *const MemOps) -> Result<Op, u32> {
    // SAFETY: null, or params with at least one operation, which `# Safety` demands. The list may
    // be null too.
    let op = unsafe { params.as_ref().and_then(|params| params.ops.as_ref()) };
    match op {
        Some(MemOp { operation: 1, at, value, flags, .. }) => {
            Ok(Op::Wait { at: *at, value: *value as u32, flags: *flags })
        }
        Some(MemOp { operation: 2, at, value, .. }) => Ok(Op::Write(*at, *value as u32)),
        _ => Err(INVALID_VALUE),
    }
}
