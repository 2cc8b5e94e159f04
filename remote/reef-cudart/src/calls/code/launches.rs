//! Launches of kernels and of host functions.

use crate::calls::export::{forward_ptsz, plain, ptsz};
use crate::codes::*;
use crate::driver::Driver;
use crate::state::context::enter;
use crate::state::loaded::kernel;
use crate::types::{Dim3, Stream};
use reef_cuda_abi::layouts::LaunchConfig;
use std::ffi::c_void;

ptsz! {
    cudaLaunchKernel / cudaLaunchKernel_ptsz(
        function: usize, grid: Dim3, block: Dim3, params: *const *const c_void, shared: usize, stream: Stream
    ) = launch_function;
    cudaLaunchCooperativeKernel / cudaLaunchCooperativeKernel_ptsz(
        function: usize, grid: Dim3, block: Dim3, params: *const *const c_void, shared: usize, stream: Stream
    ) = launch_cooperative;
}

plain! {
    cudaLaunchKernelExC(config: *const Config, function: usize, params: *const *const c_void) = launch_ex;
    cudaLaunchKernelExC_ptsz(config: *const Config, function: usize, params: *const *const c_void) = launch_ex_ptsz;
    cudaOccupancyMaxActiveClusters(clusters: *mut i32, function: usize, config: *const Config) = max_clusters;
    cudaOccupancyMaxPotentialClusterSize(size: *mut i32, function: usize, config: *const Config) = max_cluster_size;
}

forward_ptsz! {
    cudaLaunchHostFunc / cudaLaunchHostFunc_ptsz(stream: Stream, function: usize, data: usize)
        => cuLaunchHostFunc(stream, function, data);
}

/// `cudaLaunchConfig_t`.
#[derive(Debug)]
#[repr(C)]
struct Config {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: Stream,
    attributes: *const c_void,
    count: u32,
}

// As the headers of both releases have it (tests/programs/layouts.c).
const _: () = assert!(size_of::<Config>() == 56);
const _: () = assert!(std::mem::offset_of!(Config, count) == 48);

/// Most threads of a block on all devices.
const MAX_THREADS: u64 = 1024;

/// The runtime has a code of its own for sizes that can't be.
fn code_of(code: u32, grid: Dim3, block: Dim3) -> u32 {
    let [grid, block] = [grid, block].map(|size| size.sides().map(u64::from));
    let threads: u64 = block.iter().product();
    let is_odd = grid.contains(&0) || threads == 0 || threads > MAX_THREADS || block[2] > 64;
    if code == INVALID_VALUE && is_odd { INVALID_CONFIGURATION } else { code }
}

fn bytes(shared: usize) -> Result<u32, u32> {
    u32::try_from(shared).map_err(|_| INVALID_VALUE)
}

/// Launches a kernel, named by the host's function or by a handle.
///
/// # Errors
///
/// `INVALID_FUNCTION`, `INVALID_CONFIGURATION` or the driver's code.
///
/// # Safety
///
/// `params` has an address for each parameter of the kernel.
pub(super) unsafe fn launch_function(
    function: usize,
    grid: Dim3,
    block: Dim3,
    params: *const *const c_void,
    shared: usize,
    stream: Stream,
) -> Result<(), u32> {
    let driver = enter()?;
    let (kernel, shared, none) = (kernel(driver, function)?, bytes(shared)?, std::ptr::null());
    let ([x, y, z], [wide, high, deep]) = (grid.sides(), block.sides());
    // SAFETY: `# Safety` demands an address for each parameter, as cuLaunchKernel does. The kernel
    // is the driver's, and the stream is passed on unread.
    unsafe {
        driver.cuLaunchKernel(kernel, x, y, z, wide, high, deep, shared, stream, params, none)
    }
    .map_err(|code| code_of(code, grid, block))
}

unsafe fn launch_cooperative(
    function: usize,
    grid: Dim3,
    block: Dim3,
    params: *const *const c_void,
    shared: usize,
    stream: Stream,
) -> Result<(), u32> {
    let driver = enter()?;
    let (kernel, shared) = (kernel(driver, function)?, bytes(shared)?);
    let ([x, y, z], [wide, high, deep]) = (grid.sides(), block.sides());
    // SAFETY: cudaLaunchCooperativeKernel demands an address for each parameter in `params`, as the
    // driver's function does. The stream is passed on unread.
    let result = unsafe {
        driver.cuLaunchCooperativeKernel(kernel, x, y, z, wide, high, deep, shared, stream, params)
    };
    result.map_err(|code| code_of(code, grid, block))
}

/// Calls with the driver's form of a configuration.
unsafe fn with_config(
    config: *const Config,
    function: usize,
    is_ptsz: bool,
    call: impl FnOnce(&Driver, usize, &LaunchConfig) -> Result<(), u32>,
) -> Result<(), u32> {
    if config.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and the runtime demands a `cudaLaunchConfig_t`, which the program does not
    // change during the call.
    let &Config { grid, block, shared, stream, attributes, count } = unsafe { &*config };
    let stream = if is_ptsz && stream == Stream::DEFAULT { Stream::PER_THREAD } else { stream };
    let driver = enter()?;
    let kernel = kernel(driver, function)?;
    // Attributes of the runtime are those of the driver.
    let (attributes, Stream(stream), shared) = (attributes.cast(), stream, bytes(shared)?);
    let (blocks, threads) = (grid.sides(), block.sides());
    let config = LaunchConfig { grid: blocks, block: threads, shared, stream, attributes, count };
    call(driver, kernel, &config).map_err(|code| code_of(code, grid, block))
}

unsafe fn launch_with(
    config: *const Config,
    function: usize,
    params: *const *const c_void,
    is_ptsz: bool,
) -> Result<(), u32> {
    let none = std::ptr::null();
    let launch = |driver: &Driver, kernel, config: &LaunchConfig| {
        let config = std::ptr::from_ref(config).cast();
        // SAFETY: cudaLaunchKernelExC demands an address for each parameter in `params`, and
        // `count` attributes. `config` is a local of the driver's type.
        unsafe { driver.cuLaunchKernelEx(config, kernel, params, none) }
    };
    // SAFETY: cudaLaunchKernelExC demands that `config` is null or a `cudaLaunchConfig_t`.
    unsafe { with_config(config, function, is_ptsz, launch) }
}

unsafe fn launch_ex(
    config: *const Config,
    function: usize,
    params: *const *const c_void,
) -> Result<(), u32> {
    // SAFETY: cudaLaunchKernelExC demands a configuration, and an address for each parameter in
    // `params`.
    unsafe { launch_with(config, function, params, false) }
}

unsafe fn launch_ex_ptsz(
    config: *const Config,
    function: usize,
    params: *const *const c_void,
) -> Result<(), u32> {
    // SAFETY: cudaLaunchKernelExC demands a configuration, and an address for each parameter in
    // `params`.
    unsafe { launch_with(config, function, params, true) }
}

unsafe fn max_clusters(
    clusters: *mut i32,
    function: usize,
    config: *const Config,
) -> Result<(), u32> {
    let ask = |driver: &Driver, kernel, config: &LaunchConfig| {
        let config = std::ptr::from_ref(config).cast();
        // SAFETY: cudaOccupancyMaxActiveClusters demands that `clusters` may be written, and
        // `count` attributes. `config` is a local of the driver's type.
        unsafe { driver.cuOccupancyMaxActiveClusters(clusters, kernel, config) }
    };
    // SAFETY: cudaOccupancyMaxActiveClusters demands that `config` is null or a
    // `cudaLaunchConfig_t`.
    unsafe { with_config(config, function, false, ask) }
}

unsafe fn max_cluster_size(
    size: *mut i32,
    function: usize,
    config: *const Config,
) -> Result<(), u32> {
    let ask = |driver: &Driver, kernel, config: &LaunchConfig| {
        let config = std::ptr::from_ref(config).cast();
        // SAFETY: cudaOccupancyMaxPotentialClusterSize demands that `size` may be written, and
        // `count` attributes. `config` is a local of the driver's type.
        unsafe { driver.cuOccupancyMaxPotentialClusterSize(size, kernel, config) }
    };
    // SAFETY: cudaOccupancyMaxPotentialClusterSize demands that `config` is null or a
    // `cudaLaunchConfig_t`.
    unsafe { with_config(config, function, false, ask) }
}
