//! The driver's structs from which nodes of graphs are made, as operations.

use crate::api::current;
use crate::engine::blocks::Launched;
use crate::engine::op::{Kernel, Op};
use crate::engine::world::world;
use reef_cuda_abi::codes::*;
use reef_cuda_abi::layouts::{
    BatchMemOp, BatchMemOpNodeParams, KernelNodeParamsV1, MemsetNodeParams,
};
use std::sync::Arc;

/// `CUDA_HOST_NODE_PARAMS`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct HostParams {
    function: extern "C" fn(usize),
    data: usize,
}

/// A kernel with its arguments.
///
/// # Safety
///
/// `params` is null, or has an address for each argument that the kernel takes. A kernel that is
/// not in PTX takes two of 64 bits.
pub(crate) unsafe fn kernel(params: *const KernelNodeParamsV1) -> Result<Op, u32> {
    // SAFETY: null, or the params that `# Safety` demands, of which the second version begins with
    // the first.
    let params = unsafe { params.as_ref() }.ok_or(INVALID_VALUE)?;
    let list = params.params as *const *const u64;
    let entry = world().entries.get(&params.function).cloned();
    if let Some(entry) = entry.filter(|_| !params.grid.contains(&0)) {
        let handles = [params.function, current::handle()];
        let sides = [params.grid, params.block];
        // SAFETY: `# Safety` demands an address of each parameter of a kernel in PTX, which
        // `Launched::new` copies.
        let launched = unsafe { Launched::new(entry, handles, sides, params.shared, list) };
        let mut world = world();
        let number = world.number();
        world.launched.insert(number, Arc::new(launched.ok_or(INVALID_VALUE)?));
        return Ok(Op::Blocks(number));
    }
    let kernel = world().names.get(&params.function).and_then(|name| Kernel::named(name));
    let kernel = kernel.ok_or(INVALID_HANDLE)?;
    if list.is_null() || params.grid.contains(&0) {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and `# Safety` demands addresses of two parameters of 64 bits for a kernel
    // that is not in PTX.
    let (to, value) = unsafe { (**list, **list.add(1)) };
    Ok(Op::Kernel(kernel, to, value))
}

/// Bytes that are set.
///
/// # Safety
///
/// `params` is null, or a `CUDA_MEMSET_NODE_PARAMS`.
pub(crate) unsafe fn fill(params: *const MemsetNodeParams) -> Result<Op, u32> {
    // SAFETY: null, or a `CUDA_MEMSET_NODE_PARAMS`, which `# Safety` demands.
    let params = unsafe { params.as_ref() }.ok_or(INVALID_VALUE)?;
    let MemsetNodeParams { at, value, width, .. } = *params;
    Ok(Op::Fill { to: at, value: value as u8, bytes: width })
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
pub(crate) unsafe fn mem_op(params: *const BatchMemOpNodeParams) -> Result<Op, u32> {
    // SAFETY: null, or params with at least one operation, which `# Safety` demands. The list may
    // be null too.
    let op = unsafe { params.as_ref().and_then(|params| params.ops.as_ref()) };
    match op {
        Some(BatchMemOp { operation: 1, at, value, flags, .. }) => {
            Ok(Op::Wait { at: *at as usize, value: *value as u32, flags: *flags })
        }
        Some(BatchMemOp { operation: 2, at, value, .. }) => {
            Ok(Op::Write(*at as usize, *value as u32))
        }
        _ => Err(INVALID_VALUE),
    }
}
