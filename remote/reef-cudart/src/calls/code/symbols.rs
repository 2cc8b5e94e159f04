//! Variables of the device: where they are, and copies to and from them.

use crate::calls::export::{by_default, give, plain, ptsz};
use crate::calls::memory::copies::{self, Kind};
use crate::codes::*;
use crate::state::context::enter;
use crate::state::loaded::symbol;
use crate::types::Stream;

plain! {
    cudaGetSymbolAddress(at: *mut u64, variable: usize) = address;
    cudaGetSymbolSize(bytes: *mut usize, variable: usize) = size;
}

by_default! {
    cudaMemcpyToSymbol / cudaMemcpyToSymbol_ptds(
        variable: usize, from: usize, bytes: usize, offset: usize, kind: u32
    ) = copy_to;
    cudaMemcpyFromSymbol / cudaMemcpyFromSymbol_ptds(
        to: usize, variable: usize, bytes: usize, offset: usize, kind: u32
    ) = copy_from;
}

ptsz! {
    cudaMemcpyToSymbolAsync / cudaMemcpyToSymbolAsync_ptsz(
        variable: usize, from: usize, bytes: usize, offset: usize, kind: u32, stream: Stream
    ) = queue_to;
    cudaMemcpyFromSymbolAsync / cudaMemcpyFromSymbolAsync_ptsz(
        to: usize, variable: usize, bytes: usize, offset: usize, kind: u32, stream: Stream
    ) = queue_from;
}

unsafe fn address(at: *mut u64, variable: usize) -> Result<(), u32> {
    let (found, _) = symbol(enter()?, variable)?;
    // SAFETY: cudaGetSymbolAddress demands that `at` may be written; `give` refuses null.
    unsafe { give(at, found) }
}

unsafe fn size(bytes: *mut usize, variable: usize) -> Result<(), u32> {
    let (_, found) = symbol(enter()?, variable)?;
    // SAFETY: cudaGetSymbolSize demands that `bytes` may be written; `give` refuses null.
    unsafe { give(bytes, found) }
}

/// Address of a part of a variable.
fn part(variable: usize, bytes: usize, offset: usize) -> Result<usize, u32> {
    let (at, len) = symbol(enter()?, variable)?;
    let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= len);
    if is_inside { Ok(at as usize + offset) } else { Err(INVALID_VALUE) }
}

/// The variable is the device's, whatever the other side is.
fn kind(kind: u32, is_target: bool) -> Result<Kind, u32> {
    match (Kind::of(kind)?, is_target) {
        (Kind::ToHost | Kind::OnHost, true) | (Kind::ToDevice | Kind::OnHost, false) => {
            Err(INVALID_DIRECTION)
        }
        (kind, _) => Ok(kind),
    }
}

unsafe fn copy_to(
    stream: Stream,
    variable: usize,
    from: usize,
    bytes: usize,
    offset: usize,
    direction: u32,
) -> Result<(), u32> {
    let kind = kind(direction, true)?;
    // SAFETY: `part` has checked that the variable has `bytes` bytes there, and cudaMemcpyToSymbol
    // demands as many at `from`.
    unsafe { copies::copy(stream, part(variable, bytes, offset)?, from, bytes, kind) }
}

unsafe fn copy_from(
    stream: Stream,
    to: usize,
    variable: usize,
    bytes: usize,
    offset: usize,
    direction: u32,
) -> Result<(), u32> {
    let kind = kind(direction, false)?;
    // SAFETY: `part` has checked that the variable has `bytes` bytes there, and
    // cudaMemcpyFromSymbol demands room for as many at `to`.
    unsafe { copies::copy(stream, to, part(variable, bytes, offset)?, bytes, kind) }
}

unsafe fn queue_to(
    variable: usize,
    from: usize,
    bytes: usize,
    offset: usize,
    direction: u32,
    stream: Stream,
) -> Result<(), u32> {
    let kind = kind(direction, true)?;
    // SAFETY: `part` has checked that the variable has `bytes` bytes there. cudaMemcpyToSymbolAsync
    // demands as many at `from`, until the stream has copied them.
    unsafe { copies::queue(part(variable, bytes, offset)?, from, bytes, kind, stream) }
}

unsafe fn queue_from(
    to: usize,
    variable: usize,
    bytes: usize,
    offset: usize,
    direction: u32,
    stream: Stream,
) -> Result<(), u32> {
    let kind = kind(direction, false)?;
    // SAFETY: `part` has checked that the variable has `bytes` bytes there.
    // cudaMemcpyFromSymbolAsync demands room for as many at `to`, until the stream has copied them.
    unsafe { copies::queue(to, part(variable, bytes, offset)?, bytes, kind, stream) }
}
