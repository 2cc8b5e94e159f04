//! Calls of the driver for stops.

use crate::driver::calls::calls;
use crate::driver::names;
use crate::driver::slots::real;
use reef_cuda_abi::codes::{LAUNCH_FAILED, NOT_FOUND};
use std::ffi::c_void;
use std::ptr::null_mut;

calls! {
    create_stream = cuStreamCreateWithPriority(stream: &mut usize, flags: u32, priority: i32);
    priorities = cuCtxGetStreamPriorityRange(least: &mut i32, greatest: &mut i32);
    allocate = cuMemAlloc_v2(to: &mut u64, bytes: usize);
    wait_for_stream = cuStreamSynchronize(stream: usize);
    query_stream = cuStreamQuery(stream: usize);
}

calls! {
    unsafe:
    /// # Safety
    ///
    /// The memory is the library's, and nothing else uses it.
    fill = cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: usize);
    /// # Safety
    ///
    /// `params` has an address of each of the kernel's parameters.
    launch_kernel = cuLaunchKernel(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: usize, params: *mut *mut c_void, extra: *mut *mut c_void
    );
}

/// Code of a launch that was not made: `CUDA_ERROR_LAUNCH_FAILED` of what comes before it.
pub(crate) const NOT_LAUNCHED: u32 = LAUNCH_FAILED;

/// Launches a kernel. Returns the driver's code.
///
/// # Safety
///
/// `params` has an address of each of the kernel's parameters, of which the driver takes copies.
pub(crate) unsafe fn launch(
    function: usize,
    stream: usize,
    [across, down, deep]: [u32; 3],
    [x, y, z]: [u32; 3],
    shared: u32,
    params: *mut *mut c_void,
) -> u32 {
    // SAFETY: `# Safety` demands an address of each parameter in `params`, which the driver copies.
    // `extra` is null, and the driver checks the handles.
    let code = unsafe {
        launch_kernel(function, across, down, deep, x, y, z, shared, stream, params, null_mut())
    };
    code.unwrap_or(NOT_FOUND)
}
