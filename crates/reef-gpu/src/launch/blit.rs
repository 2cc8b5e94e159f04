//! Copies and fills are kernels, so that they can be stopped and captured like any other.

use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use reef_core::{Args, Copy, Error, Fill, Launch, Result};

/// Threads of a block of the two kernels below.
const BLIT_BLOCK: u32 = 256;
/// Minimum of bytes that one block copies or fills.
const MIN_CHUNK: usize = 4096;
/// Maximum of blocks of a kernel of ours that can choose: about as many as a large device runs at a
/// time. An eviction takes 10 ns for each.
pub(crate) const MAX_CHOSEN_BLOCKS: u32 = 1056;

/// Bytes for each block and how many blocks, so that blocks begin at multiples of 16 bytes.
fn divide(bytes: usize) -> (usize, u32) {
    let chunk = bytes.div_ceil(MAX_CHOSEN_BLOCKS as usize).next_multiple_of(16).max(MIN_CHUNK);
    (chunk, bytes.div_ceil(chunk) as u32)
}

/// The launch that does a copy.
pub(crate) fn copy_launch<V: Vendor>(gpu: &Gpu<V>, copy: &Copy<Gpu<V>>) -> Result<Launch<Gpu<V>>> {
    [&copy.from, &copy.to].into_iter().try_for_each(|of| of.check_device(gpu.context()))?;
    let from = copy.from.range(copy.from_offset, copy.bytes)?;
    let to = copy.to.range(copy.to_offset, copy.bytes)?;
    let (chunk, blocks) = divide(copy.bytes);
    let args = Args::new(&[from, to, copy.bytes as u64, chunk as u64]);
    let kernel = gpu.builtin().copy.clone();
    // SAFETY: the kernel's parameters; the ranges are inside the buffers, which the device reaches,
    // and blocks write disjoint parts.
    Ok(unsafe { Launch::new(kernel, [blocks, 1, 1], [BLIT_BLOCK, 1, 1], args) })
}

/// The launch that does a fill.
pub(crate) fn fill_launch<V: Vendor>(gpu: &Gpu<V>, fill: &Fill<Gpu<V>>) -> Result<Launch<Gpu<V>>> {
    fill.buffer.check_device(gpu.context())?;
    let to = fill.buffer.range(fill.offset, fill.bytes)?;
    if !fill.bytes.is_multiple_of(4) || !to.is_multiple_of(4) {
        let (bytes, offset) = (fill.bytes, fill.offset);
        return Err(Error::invalid(
            "fill",
            format!("must be of whole words, got {bytes} bytes at {offset}"),
        ));
    }
    let (chunk, blocks) = divide(fill.bytes);
    let args = Args::new(&[to, fill.bytes as u64 / 4, fill.word.into(), chunk as u64 / 4]);
    let kernel = gpu.builtin().fill.clone();
    // SAFETY: the kernel's parameters; the range is inside the buffer, which the device reaches,
    // and blocks write disjoint parts.
    Ok(unsafe { Launch::new(kernel, [blocks, 1, 1], [BLIT_BLOCK, 1, 1], args) })
}
