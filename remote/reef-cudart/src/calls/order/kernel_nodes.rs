//! Nodes of graphs that launch kernels.

use crate::calls::export::{forward, give, plain};
use crate::codes::*;
use crate::driver::Driver;
use crate::state::context::enter;
use crate::state::loaded::kernel;
use crate::state::registered::function;
use crate::types::Dim3;
use reef_cuda_abi::layouts::{KernelNodeParams, KernelNodeParamsV1};
use std::ffi::c_void;

plain! {
    cudaGraphAddKernelNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const Params
    ) = add;
    cudaGraphKernelNodeGetParams(node: usize, params: *mut Params) = get;
    cudaGraphKernelNodeSetParams(node: usize, params: *const Params) = set;
    cudaGraphExecKernelNodeSetParams(exec: usize, node: usize, params: *const Params) = set_exec;
}

forward! {
    cudaGraphKernelNodeGetAttribute(node: usize, attribute: u32, value: *mut c_void)
        => cuGraphKernelNodeGetAttribute(node, attribute, value);
    cudaGraphKernelNodeSetAttribute(node: usize, attribute: u32, value: *const c_void)
        => cuGraphKernelNodeSetAttribute(node, attribute, value);
}

/// `cudaKernelNodeParams`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Params {
    function: usize,
    grid: Dim3,
    block: Dim3,
    shared: u32,
    params: usize,
    extra: usize,
}

// As the headers of both releases have it (tests/programs/layouts.c).
const _: () = assert!(size_of::<Params>() == 56);
const _: () = assert!(std::mem::offset_of!(Params, params) == 40);

/// Calls with the driver's form.
unsafe fn with_params(
    params: *const Params,
    call: impl FnOnce(&Driver, *const c_void) -> Result<(), u32>,
) -> Result<(), u32> {
    let driver = enter()?;
    if params.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and the runtime demands a `cudaKernelNodeParams`, which the program does
    // not change during the call.
    let &Params { function, grid, block, shared, params, extra } = unsafe { &*params };
    let kernel = kernel(driver, function)?;
    let (grid, block) = (grid.sides(), block.sides());
    let first = KernelNodeParamsV1 { function: 0, grid, block, shared, params, extra };
    let params = KernelNodeParams { first, kernel, context: 0 };
    call(driver, (&raw const params).cast())
}

unsafe fn add(
    node: *mut usize,
    graph: usize,
    after: *const usize,
    count: usize,
    params: *const Params,
) -> Result<(), u32> {
    // SAFETY: cudaGraphAddKernelNode demands `count` nodes at `after`, that `node` may be written,
    // and an address for each parameter. The form passed on is a local.
    unsafe {
        with_params(params, |driver, params| {
            driver.cuGraphAddKernelNode_v2(node, graph, after, count, params)
        })
    }
}

unsafe fn get(node: usize, params: *mut Params) -> Result<(), u32> {
    let driver = enter()?;
    let (grid, block) = ([0; 3], [0; 3]);
    let first = KernelNodeParamsV1 { function: 0, grid, block, shared: 0, params: 0, extra: 0 };
    let mut found = KernelNodeParams { first, kernel: 0, context: 0 };
    // SAFETY: a place of this size.
    unsafe { driver.cuGraphKernelNodeGetParams_v2(node, (&raw mut found).cast()) }?;
    let KernelNodeParams { first, kernel, .. } = found;
    let KernelNodeParamsV1 { grid, block, shared, params: list, extra, .. } = first;
    let [grid, block] = [grid, block].map(|[x, y, z]| Dim3 { x, y, z });
    let handle = if kernel == 0 { first.function } else { kernel };
    // The program knows the kernel by the host's function.
    let host = function(handle).map_or(handle, |function| function.host);
    // SAFETY: cudaGraphKernelNodeGetParams demands that `params` may be written; `give` refuses
    // null.
    unsafe { give(params, Params { function: host, grid, block, shared, params: list, extra }) }
}

unsafe fn set(node: usize, params: *const Params) -> Result<(), u32> {
    // SAFETY: cudaGraphKernelNodeSetParams demands that `params` is null or a
    // `cudaKernelNodeParams`, with an address for each parameter of the kernel.
    unsafe {
        with_params(params, |driver, params| driver.cuGraphKernelNodeSetParams_v2(node, params))
    }
}

unsafe fn set_exec(exec: usize, node: usize, params: *const Params) -> Result<(), u32> {
    // SAFETY: cudaGraphExecKernelNodeSetParams demands that `params` is null or a
    // `cudaKernelNodeParams`, with an address for each parameter of the kernel.
    unsafe {
        with_params(params, |driver, params| {
            driver.cuGraphExecKernelNodeSetParams_v2(exec, node, params)
        })
    }
}
