//! Copies and fills are kernels, so that they can be stopped and captured like any other.

use crate::Cuda;
use crate::driver::BACKEND;
use reef_core::{Args, Copy, Error, Fill, Launch, Result};

/// Threads of a block of the two kernels below.
const OWN_BLOCK: u32 = 256;
/// Least bytes that one block copies or fills.
const LEAST_CHUNK: usize = 4096;
/// About as many blocks as a large device runs at a time; evicting more takes longer.
const MOST_OWN_BLOCKS: usize = 1056;

/// Bytes for each block and how many blocks, so that blocks begin at multiples of 16 bytes.
fn divide(bytes: usize) -> (usize, u32) {
    let chunk = bytes.div_ceil(MOST_OWN_BLOCKS).next_multiple_of(16).max(LEAST_CHUNK);
    (chunk, bytes.div_ceil(chunk) as u32)
}

/// The launch that does a copy; `None` if there is nothing to copy.
pub(crate) fn copy_launch(cuda: &Cuda, copy: &Copy<Cuda>) -> Result<Option<Launch<Cuda>>> {
    let from = copy.from.range(copy.from_offset, copy.bytes)?;
    let to = copy.to.range(copy.to_offset, copy.bytes)?;
    let (chunk, blocks) = divide(copy.bytes);
    let args = Args::new(&[from, to, copy.bytes as u64, chunk as u64]);
    // SAFETY: the kernel's parameters; the ranges are inside the buffers, and blocks write disjoint
    // parts.
    Ok(own_launch(blocks, || unsafe {
        Launch::new(cuda.builtin().copy.clone(), [blocks, 1, 1], [OWN_BLOCK, 1, 1], args)
    }))
}

/// The launch that does a fill; `None` if there is nothing to fill.
pub(crate) fn fill_launch(cuda: &Cuda, fill: &Fill<Cuda>) -> Result<Option<Launch<Cuda>>> {
    let to = fill.buffer.range(fill.offset, fill.bytes)?;
    if !fill.bytes.is_multiple_of(4) || !to.is_multiple_of(4) {
        let (bytes, offset) = (fill.bytes, fill.offset);
        let text = format!("{BACKEND}: a fill of {bytes} bytes at {offset} is not of whole words");
        return Err(Error::Invalid(text));
    }
    let (chunk, blocks) = divide(fill.bytes);
    let args = Args::new(&[to, fill.bytes as u64 / 4, fill.word.into(), chunk as u64 / 4]);
    // SAFETY: the kernel's parameters; the range is inside the buffer, and blocks write disjoint parts.
    Ok(own_launch(blocks, || unsafe {
        Launch::new(cuda.builtin().fill.clone(), [blocks, 1, 1], [OWN_BLOCK, 1, 1], args)
    }))
}

fn own_launch(blocks: u32, make: impl FnOnce() -> Launch<Cuda>) -> Option<Launch<Cuda>> {
    (blocks > 0).then(make)
}
