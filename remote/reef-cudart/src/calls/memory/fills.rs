//! Fills.

use crate::calls::export::{by_default, ptsz};
use crate::codes::*;
use crate::state::context::enter;
use crate::types::{Extent, Pitched, Stream};

by_default! {
    cudaMemset / cudaMemset_ptds(at: u64, value: i32, bytes: usize) = fill_now;
    cudaMemset2D / cudaMemset2D_ptds(at: u64, pitch: usize, value: i32, width: usize, height: usize) = fill_rows_now;
    cudaMemset3D / cudaMemset3D_ptds(of: Pitched, value: i32, extent: Extent) = fill_slices_now;
}

ptsz! {
    cudaMemsetAsync / cudaMemsetAsync_ptsz(at: u64, value: i32, bytes: usize, stream: Stream) = fill;
    cudaMemset2DAsync / cudaMemset2DAsync_ptsz(
        at: u64, pitch: usize, value: i32, width: usize, height: usize, stream: Stream
    ) = fill_rows;
    cudaMemset3DAsync / cudaMemset3DAsync_ptsz(of: Pitched, value: i32, extent: Extent, stream: Stream) = fill_slices;
}

unsafe fn fill(at: u64, value: i32, bytes: usize, stream: Stream) -> Result<(), u32> {
    let driver = enter()?;
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: cudaMemset demands `bytes` bytes of the device's memory at `at` until the stream has
    // filled them.
    unsafe { driver.cuMemsetD8Async(at, value as u8, bytes, stream) }
}

unsafe fn fill_now(stream: Stream, at: u64, value: i32, bytes: usize) -> Result<(), u32> {
    // SAFETY: cudaMemset demands `bytes` bytes of the device's memory at `at` until they are
    // filled.
    unsafe { fill(at, value, bytes, stream) }
}

unsafe fn fill_rows(
    at: u64,
    pitch: usize,
    value: i32,
    width: usize,
    height: usize,
    stream: Stream,
) -> Result<(), u32> {
    let driver = enter()?;
    if width == 0 || height == 0 {
        return Ok(());
    }
    if width > pitch {
        return Err(INVALID_VALUE);
    }
    // SAFETY: cudaMemset2D demands `height` rows of the device's memory, `pitch` apart, until the
    // stream has filled them.
    unsafe { driver.cuMemsetD2D8Async(at, pitch, value as u8, width, height, stream) }
}

unsafe fn fill_rows_now(
    stream: Stream,
    at: u64,
    pitch: usize,
    value: i32,
    width: usize,
    height: usize,
) -> Result<(), u32> {
    // SAFETY: cudaMemset2D demands `height` rows of the device's memory, `pitch` apart, until they
    // are filled.
    unsafe { fill_rows(at, pitch, value, width, height, stream) }
}

/// Slice by slice.
unsafe fn fill_slices(of: Pitched, value: i32, extent: Extent, stream: Stream) -> Result<(), u32> {
    let Extent { width, height, depth } = extent;
    let slice = of.pitch.checked_mul(of.height).ok_or(INVALID_VALUE)?;
    let bytes = slice.checked_mul(depth);
    bytes.and_then(|bytes| of.at.checked_add(bytes)).ok_or(INVALID_VALUE)?;
    // Of slices without bytes one says whether the rest is right.
    let depth = if width == 0 || height == 0 { depth.min(1) } else { depth };
    for at in 0..depth {
        let at = (of.at + at * slice) as u64;
        // SAFETY: cudaMemset3D demands `depth` slices of `of.height` rows, and this is one of them,
        // until the stream has filled it.
        unsafe { fill_rows(at, of.pitch, value, width, height, stream) }?;
    }
    Ok(())
}

unsafe fn fill_slices_now(
    stream: Stream,
    of: Pitched,
    value: i32,
    extent: Extent,
) -> Result<(), u32> {
    // SAFETY: cudaMemset3D demands `depth` slices of `of.height` rows of the device's memory until
    // they are filled.
    unsafe { fill_slices(of, value, extent, stream) }
}
