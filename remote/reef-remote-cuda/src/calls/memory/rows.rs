//! Copies of rows that lie apart. Arrays are refused.

use super::copies::{down, up};
use crate::calls::export::ptsz;
use crate::calls::table::table;
use crate::refused::refuse;
use crate::session::session;
use reef_cuda_abi::codes::*;
use reef_cuda_abi::layouts::{Memcpy2D, Memcpy2DSide};
use reef_cuda_abi::memory_types::{DEVICE, HOST};
use reef_remote_calls::{Call, MAX_PIECE_LEN};

ptsz! {
    cuMemcpy2DAsync_v2 / cuMemcpy2DAsync_v2_ptsz(rows: *const Memcpy2D, on: usize) = copy;
    cuMemcpy2D_v2 / cuMemcpy2D_v2_ptds(rows: *const Memcpy2D) = copy_now;
    cuMemcpy2DUnaligned_v2 / cuMemcpy2DUnaligned_v2_ptds(rows: *const Memcpy2D) = copy_now;
}

/// Address of the first row's part. `None`: it is beyond all addresses, or the last one's end is.
fn first(side: &Memcpy2DSide, [width, height]: [usize; 2]) -> Option<usize> {
    let at = if side.kind == HOST { side.host } else { side.device };
    let [column, row] = side.corner;
    let first = at.checked_add(row.checked_mul(side.pitch)?)?.checked_add(column)?;
    let last = first.checked_add(side.pitch.checked_mul(height.checked_sub(1)?)?)?;
    last.checked_add(width).map(|_| first)
}

unsafe fn copy(is_ptsz: bool, rows: *const Memcpy2D, on: usize) -> Result<(), u32> {
    session()?;
    if rows.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and cuMemcpy2D demands a `CUDA_MEMCPY2D`, which the program does not change
    // during the call.
    let Memcpy2D { from, to, size } = unsafe { &*rows };
    let [width, height] = *size;
    if width == 0 || height == 0 {
        return Ok(());
    }
    if [from, to].iter().any(|side| side.pitch < width && height > 1) {
        return Err(INVALID_VALUE);
    }
    let (from_pitch, to_pitch) = (from.pitch, to.pitch);
    let (Some(source), Some(target)) = (first(from, *size), first(to, *size)) else {
        return Err(INVALID_VALUE);
    };
    // Rows that one message may have, with what is between them.
    let most = (MAX_PIECE_LEN / from_pitch.max(1)).clamp(1, height);
    let on_stream = crate::calls::export::stream(on, is_ptsz);
    // SAFETY: cuMemcpy2D demands of the program that `height` rows of `width` bytes, `pitch` apart,
    // are valid on sides of the host's memory. Sides of the device's memory are passed on unread.
    unsafe {
        match (to.kind, from.kind) {
            (DEVICE, HOST) => (0..height).try_for_each(|row| {
                let (to, from) = (target + row * to_pitch, source + row * from_pitch);
                up(to as u64, from as *const u8, width, on_stream, false)
            }),
            (DEVICE, DEVICE) => (0..height).try_for_each(|row| {
                let (to, from) = (target + row * to_pitch, source + row * from_pitch);
                let args = [to, from, width, on];
                table(Call::cuMemcpyDtoDAsync_v2, is_ptsz, &args)
            }),
            (HOST, DEVICE) if most == 1 => (0..height).try_for_each(|row| {
                let (to, from) = (target + row * to_pitch, source + row * from_pitch);
                down(to as *mut u8, from as u64, width, on_stream)
            }),
            (HOST, DEVICE) => {
                let mut bytes = Vec::new();
                for first in (0..height).step_by(most) {
                    let count = most.min(height - first);
                    bytes.resize(from_pitch * (count - 1) + width, 0_u8);
                    let at = (source + first * from_pitch) as u64;
                    down(bytes.as_mut_ptr(), at, bytes.len(), on_stream)?;
                    for row in 0..count {
                        let (to, from) = (target + (first + row) * to_pitch, row * from_pitch);
                        let from = bytes[from..].as_ptr();
                        std::ptr::copy_nonoverlapping(from, to as *mut u8, width);
                    }
                }
                Ok(())
            }
            _ => Err(refuse(c"a copy of rows with an array, or within the host's memory")),
        }
    }
}

/// Copies to the device have ended too: the rest of a stream's work comes after them.
unsafe fn copy_now(is_ptsz: bool, rows: *const Memcpy2D) -> Result<(), u32> {
    // SAFETY: cuMemcpy2D demands that `rows` is null or a `CUDA_MEMCPY2D` whose host memory is
    // valid. The other call takes no address.
    unsafe {
        copy(is_ptsz, rows, 0)?;
        table(Call::cuStreamSynchronize, is_ptsz, &[0])
    }
}
