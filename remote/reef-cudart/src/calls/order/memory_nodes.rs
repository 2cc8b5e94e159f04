//! Nodes of graphs that copy and fill.

use crate::calls::export::plain;
use crate::calls::memory::slices::Params;
use crate::codes::*;
use crate::driver::Driver;
use crate::state::context::{current, enter};
use reef_cuda_abi::layouts::MemsetNodeParams;
use std::ffi::c_void;

plain! {
    cudaGraphAddMemcpyNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const Params
    ) = add_copy;
    cudaGraphAddMemcpyNode1D(
        node: *mut usize, graph: usize, after: *const usize, count: usize, to: usize, from: usize, bytes: usize,
        kind: u32
    ) = add_line;
    cudaGraphMemcpyNodeSetParams(node: usize, params: *const Params) = set_copy;
    cudaGraphExecMemcpyNodeSetParams(exec: usize, node: usize, params: *const Params) = set_exec_copy;
    cudaGraphExecMemcpyNodeSetParams1D(
        exec: usize, node: usize, to: usize, from: usize, bytes: usize, kind: u32
    ) = set_exec_line;
    cudaGraphAddMemsetNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const MemsetNodeParams
    ) = add_fill;
    cudaGraphMemsetNodeSetParams(node: usize, params: *const MemsetNodeParams) = set_fill;
    cudaGraphExecMemsetNodeSetParams(exec: usize, node: usize, params: *const MemsetNodeParams) = set_exec_fill;
}

/// Calls with the driver's form of a copy.
unsafe fn with_copy(
    params: *const Params,
    call: impl FnOnce(&Driver, *const c_void, usize) -> Result<(), u32>,
) -> Result<(), u32> {
    let driver = enter()?;
    if params.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and the runtime demands a `cudaMemcpy3DParms`, which the program does not
    // change during the call.
    let slices = unsafe { &*params }.slices(driver)?;
    call(driver, (&raw const slices).cast(), current(driver)?)
}

unsafe fn add_copy(
    node: *mut usize,
    graph: usize,
    after: *const usize,
    count: usize,
    params: *const Params,
) -> Result<(), u32> {
    // SAFETY: cudaGraphAddMemcpyNode demands that `params` is null or a `cudaMemcpy3DParms`,
    // `count` nodes at `after`, and that `node` may be written.
    unsafe {
        with_copy(params, |driver, copy, context| {
            driver.cuGraphAddMemcpyNode(node, graph, after, count, copy, context)
        })
    }
}

#[allow(clippy::too_many_arguments)] // the runtime's
unsafe fn add_line(
    node: *mut usize,
    graph: usize,
    after: *const usize,
    count: usize,
    to: usize,
    from: usize,
    bytes: usize,
    kind: u32,
) -> Result<(), u32> {
    let params = Params::line(to, from, bytes, kind);
    // SAFETY: cudaGraphAddMemcpyNode1D demands `count` nodes at `after` and that `node` may be
    // written. `params` is a local.
    unsafe { add_copy(node, graph, after, count, &raw const params) }
}

unsafe fn set_copy(node: usize, params: *const Params) -> Result<(), u32> {
    // SAFETY: cudaGraphMemcpyNodeSetParams demands that `params` is null or a `cudaMemcpy3DParms`.
    // The node is passed on unread.
    unsafe { with_copy(params, |driver, copy, _| driver.cuGraphMemcpyNodeSetParams(node, copy)) }
}

unsafe fn set_exec_copy(exec: usize, node: usize, params: *const Params) -> Result<(), u32> {
    // SAFETY: cudaGraphExecMemcpyNodeSetParams demands that `params` is null or a
    // `cudaMemcpy3DParms`. Handles are passed on unread.
    unsafe {
        with_copy(params, |driver, copy, context| {
            driver.cuGraphExecMemcpyNodeSetParams(exec, node, copy, context)
        })
    }
}

unsafe fn set_exec_line(
    exec: usize,
    node: usize,
    to: usize,
    from: usize,
    bytes: usize,
    kind: u32,
) -> Result<(), u32> {
    let params = Params::line(to, from, bytes, kind);
    // SAFETY: `params` is a local that describes the program's copy. Handles are passed on unread.
    unsafe { set_exec_copy(exec, node, &raw const params) }
}

unsafe fn add_fill(
    node: *mut usize,
    graph: usize,
    after: *const usize,
    count: usize,
    params: *const MemsetNodeParams,
) -> Result<(), u32> {
    let driver = enter()?;
    let context = current(driver)?;
    // SAFETY: cudaGraphAddMemsetNode demands a `cudaMemsetParams`, `count` nodes at `after`, and
    // that `node` may be written. All are passed on unread.
    unsafe { driver.cuGraphAddMemsetNode(node, graph, after, count, params.cast(), context) }
}

unsafe fn set_fill(node: usize, params: *const MemsetNodeParams) -> Result<(), u32> {
    // SAFETY: cudaGraphMemsetNodeSetParams demands a `cudaMemsetParams`, which has the form of the
    // driver's. It is passed on unread.
    unsafe { enter()?.cuGraphMemsetNodeSetParams(node, params.cast()) }
}

unsafe fn set_exec_fill(
    exec: usize,
    node: usize,
    params: *const MemsetNodeParams,
) -> Result<(), u32> {
    let driver = enter()?;
    let context = current(driver)?;
    // SAFETY: cudaGraphExecMemsetNodeSetParams demands a `cudaMemsetParams`, which has the form of
    // the driver's. It is passed on unread.
    unsafe { driver.cuGraphExecMemsetNodeSetParams(exec, node, params.cast(), context) }
}
