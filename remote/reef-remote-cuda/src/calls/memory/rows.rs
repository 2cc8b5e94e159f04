//! Copies of rows that lie apart. Arrays are refused.

use super::copies::{down, up};
use crate::calls::export::ptsz;
use crate::calls::table::table;
use crate::codes::*;
use crate::refused::refuse;
use crate::session::session;
use reef_remote_calls::Call;

ptsz! {
    cuMemcpy2DAsync_v2 / cuMemcpy2DAsync_v2_ptsz(rows: *const Rows, on: usize) = copy;
    cuMemcpy2D_v2 / cuMemcpy2D_v2_ptds(rows: *const Rows) = copy_now;
    cuMemcpy2DUnaligned_v2 / cuMemcpy2DUnaligned_v2_ptds(rows: *const Rows) = copy_now;
}

/// A side of `CUDA_MEMCPY2D`: a corner, the kind of memory, its address by its kind, and how far
/// rows are apart.
#[repr(C)]
struct Side {
    corner: [usize; 2],
    kind: u32,
    host: usize,
    device: usize,
    array: usize,
    pitch: usize,
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
struct Rows {
    from: Side,
    to: Side,
    size: [usize; 2],
}

/// `CU_MEMORYTYPE_HOST` and `…_DEVICE`.
const HOST: u32 = 1;
const DEVICE: u32 = 2;

impl Side {
    /// Address of the first row's part.
    fn first(&self) -> usize {
        let at = if self.kind == HOST { self.host } else { self.device };
        at.wrapping_add(self.corner[1].wrapping_mul(self.pitch)).wrapping_add(self.corner[0])
    }
}

unsafe fn copy(is_ptsz: bool, rows: *const Rows, on: usize) -> Result<(), u32> {
    session()?;
    if rows.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and cuMemcpy2D demands a `CUDA_MEMCPY2D`, which the program does not change
    // during the call.
    let Rows { from, to, size: [width, height] } = unsafe { &*rows };
    let (width, height) = (*width, *height);
    if width == 0 || height == 0 {
        return Ok(());
    }
    if [from, to].iter().any(|side| side.pitch < width && height > 1) {
        return Err(INVALID_VALUE);
    }
    let (from_pitch, to_pitch) = (from.pitch, to.pitch);
    let (source, target) = (from.first(), to.first());
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
            (HOST, DEVICE) => {
                // One round trip a megabyte, and not one a row.
                let whole = from_pitch * (height - 1) + width;
                let mut bytes = vec![0_u8; whole];
                down(bytes.as_mut_ptr(), source as u64, whole, on_stream)?;
                for row in 0..height {
                    let to = (target + row * to_pitch) as *mut u8;
                    std::ptr::copy_nonoverlapping(bytes[row * from_pitch..].as_ptr(), to, width);
                }
                Ok(())
            }
            _ => Err(refuse(c"a copy of rows with an array, or within the host's memory")),
        }
    }
}

/// Copies to the device have ended too: the rest of a stream's work comes after them.
unsafe fn copy_now(is_ptsz: bool, rows: *const Rows) -> Result<(), u32> {
    // SAFETY: cuMemcpy2D demands that `rows` is null or a `CUDA_MEMCPY2D` whose host memory is
    // valid. The other call takes no address.
    unsafe {
        copy(is_ptsz, rows, 0)?;
        table(Call::cuStreamSynchronize, is_ptsz, &[0])
    }
}
