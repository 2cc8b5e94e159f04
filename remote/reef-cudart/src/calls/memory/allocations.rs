//! Memory: of the device, of streams, of the host.

use crate::calls::export::{forward, forward_ptsz, give, plain};
use crate::codes::*;
use crate::state::context::enter;
use crate::types::{Extent, Pitched, Stream};

/// Rows are aligned for elements of this size.
const ELEMENT: u32 = 16;

plain! {
    cudaMalloc(at: *mut u64, bytes: usize) = alloc;
    cudaFree(at: u64) = free;
    cudaMallocPitch(at: *mut u64, pitch: *mut usize, width: usize, height: usize) = alloc_pitch;
    cudaMalloc3D(to: *mut Pitched, extent: Extent) = alloc_3d;
    cudaMallocHost(at: *mut usize, bytes: usize) = alloc_host;
    cudaHostAlloc(at: *mut usize, bytes: usize, flags: u32) = alloc_host_with;
    cudaFreeHost(at: usize) = free_host;
}

forward! {
    cudaMallocManaged(at: *mut u64, bytes: usize, flags: u32) => cuMemAllocManaged(at, bytes, flags);
    cudaMemGetInfo(free: *mut usize, total: *mut usize) => cuMemGetInfo_v2(free, total);
    cudaHostRegister(at: usize, bytes: usize, flags: u32) => cuMemHostRegister_v2(at, bytes, flags);
    cudaHostUnregister(at: usize) => cuMemHostUnregister(at);
    cudaHostGetDevicePointer(to: *mut u64, at: usize, flags: u32) => cuMemHostGetDevicePointer_v2(to, at, flags);
    cudaHostGetFlags(flags: *mut u32, at: usize) => cuMemHostGetFlags(flags, at);
}

forward_ptsz! {
    cudaMallocAsync / cudaMallocAsync_ptsz(at: *mut u64, bytes: usize, stream: Stream)
        => cuMemAllocAsync(at, bytes, stream);
    cudaMallocFromPoolAsync / cudaMallocFromPoolAsync_ptsz(at: *mut u64, bytes: usize, pool: usize, stream: Stream)
        => cuMemAllocFromPoolAsync(at, bytes, pool, stream);
    cudaFreeAsync / cudaFreeAsync_ptsz(at: u64, stream: Stream) => cuMemFreeAsync(at, stream);
}

/// No bytes are at no address.
unsafe fn alloc(at: *mut u64, bytes: usize) -> Result<(), u32> {
    let driver = enter()?;
    if bytes == 0 {
        // SAFETY: cudaMalloc demands that `at` may be written; `give` refuses null.
        return unsafe { give(at, 0) };
    }
    if at.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and cudaMalloc demands that `at` may be written, as the driver's function
    // does.
    unsafe { driver.cuMemAlloc_v2(at, bytes) }
}

/// Freeing nothing starts the device, which programs use.
unsafe fn free(at: u64) -> Result<(), u32> {
    let driver = enter()?;
    if at == 0 {
        return Ok(());
    }
    // SAFETY: cudaFree demands memory of cudaMalloc that no work uses any more. The driver refuses
    // an address that it does not know.
    unsafe { driver.cuMemFree_v2(at) }
}

unsafe fn alloc_pitch(
    at: *mut u64,
    pitch: *mut usize,
    width: usize,
    height: usize,
) -> Result<(), u32> {
    let driver = enter()?;
    if at.is_null() || pitch.is_null() {
        return Err(INVALID_VALUE);
    }
    if width == 0 || height == 0 {
        // SAFETY: neither is null, and cudaMallocPitch demands that `at` and `pitch` may be
        // written.
        return unsafe {
            give(at, 0)?;
            give(pitch, 0)
        };
    }
    // SAFETY: neither is null, and cudaMallocPitch demands that `at` and `pitch` may be written, as
    // the driver's function does.
    unsafe { driver.cuMemAllocPitch_v2(at, pitch, width, height, ELEMENT) }
}

unsafe fn alloc_3d(to: *mut Pitched, extent: Extent) -> Result<(), u32> {
    let Extent { width, height, depth } = extent;
    let rows = height.checked_mul(depth).ok_or(INVALID_VALUE)?;
    let (mut at, mut pitch) = (0, 0);
    // SAFETY: places for numbers.
    unsafe { alloc_pitch(&raw mut at, &raw mut pitch, width, rows) }?;
    // SAFETY: cudaMalloc3D demands that `to` may be written; `give` refuses null.
    unsafe { give(to, Pitched { at: at as usize, pitch, width, height }) }
}

unsafe fn alloc_host(at: *mut usize, bytes: usize) -> Result<(), u32> {
    // SAFETY: cudaMallocHost demands that `at` may be written, as `alloc_host_with` does.
    unsafe { alloc_host_with(at, bytes, 0) }
}

unsafe fn alloc_host_with(at: *mut usize, bytes: usize, flags: u32) -> Result<(), u32> {
    let driver = enter()?;
    if bytes == 0 {
        // SAFETY: cudaHostAlloc demands that `at` may be written; `give` refuses null.
        return unsafe { give(at, 0) };
    }
    // SAFETY: cudaHostAlloc demands that `at` may be written. It is passed on unread, and the
    // driver refuses null.
    unsafe { driver.cuMemHostAlloc(at, bytes, flags) }
}

unsafe fn free_host(at: usize) -> Result<(), u32> {
    let driver = enter()?;
    if at == 0 {
        return Ok(());
    }
    // SAFETY: cudaFreeHost demands memory of cudaHostAlloc that nothing uses any more. The driver
    // refuses an address that it does not know.
    unsafe { driver.cuMemFreeHost(at) }
}
