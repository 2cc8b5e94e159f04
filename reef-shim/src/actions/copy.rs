//! Which copies take the device: those between its own memory and itself, and fills. Those from and
//! to the host are done by copy engines, beside the work of others.

use super::launch::copy;
use crate::driver::calls::{self, Stream};

/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`.
const MEMORY_TYPE: u32 = 2;
/// `CUmemorytype`: the host's, and what an address says by itself. Others are the device's, or
/// arrays in it.
const HOST: u32 = 1;
const UNIFIED: u32 = 4;

/// One side of a copy of rows (`CUDA_MEMCPY2D`, `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER`): `N`
/// coordinates of its corner, and `M` words behind its address.
#[repr(C)]
#[derive(Debug)]
struct Side<const N: usize, const M: usize> {
    corner: [usize; N],
    kind: u32,
    host: usize,
    device: usize,
    rest: [usize; M],
}

/// A copy of rows, as far as it is read.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Sides<const N: usize, const M: usize> {
    from: Side<N, M>,
    to: Side<N, M>,
}

/// `CUDA_MEMCPY2D`: behind the address are an array and the rows' distance.
pub(crate) type Flat = Sides<2, 2>;
/// `CUDA_MEMCPY3D`, also between contexts: an array, a context or nothing, and two distances.
pub(crate) type Deep = Sides<4, 4>;

/// Returns whether a side is memory of the device.
///
/// # Safety
///
/// A side as the program has made it for the driver: its kind, and the address that belongs to
/// that. The rest may be anything, so that no more is read.
unsafe fn is_device_side<const N: usize, const M: usize>(side: *const Side<N, M>) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match (*side).kind {
            HOST => false,
            UNIFIED => is_on_device((*side).device),
            _ => true,
        }
    }
}

/// What the driver says of an address. Memory of the host that it wasn't told of is an error there.
fn is_on_device(at: usize) -> bool {
    let mut kind = HOST;
    calls::pointer_attribute(&mut kind, MEMORY_TYPE, at) == Some(0) && kind != HOST
}

/// A fill, or a copy that is from the device to itself by its name.
pub(crate) fn on_device(stream: Stream, real: impl FnOnce() -> u32) -> u32 {
    copy(stream, || true, real)
}

/// A copy between addresses that may be the host's.
pub(crate) fn between(stream: Stream, to: usize, from: usize, real: impl FnOnce() -> u32) -> u32 {
    copy(stream, || is_on_device(to) && is_on_device(from), real)
}

/// Copies between addresses in two lists: like the first of them.
pub(crate) fn batch(
    stream: Stream,
    to: *const usize,
    from: *const usize,
    count: usize,
    real: impl FnOnce() -> u32,
) -> u32 {
    let first = |list: *const usize| {
        let list = if count > 0 { list } else { std::ptr::null() };
        // SAFETY: null, or the program's promise to the driver: a list of `count` addresses.
        unsafe { list.as_ref() }.copied()
    };
    let is_inside = || first(to).is_some_and(is_on_device) && first(from).is_some_and(is_on_device);
    copy(stream, is_inside, real)
}

/// A copy of rows.
pub(crate) fn rows<const N: usize, const M: usize>(
    stream: Stream,
    sides: *const Sides<N, M>,
    real: impl FnOnce() -> u32,
) -> u32 {
    // SAFETY: not null, so the program's promise to the driver.
    let are_inside = || unsafe {
        is_device_side(&raw const (*sides).from) && is_device_side(&raw const (*sides).to)
    };
    copy(stream, || !sides.is_null() && are_inside(), real)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn sides_stand_where_the_headers_have_them() {
        assert_eq!((offset_of!(Side<2, 2>, kind), offset_of!(Side<2, 2>, device)), (16, 32));
        assert_eq!((offset_of!(Flat, to), offset_of!(Deep, to)), (56, 88));
        assert_eq!((offset_of!(Side<4, 4>, kind), offset_of!(Side<4, 4>, device)), (32, 48));
    }
}
