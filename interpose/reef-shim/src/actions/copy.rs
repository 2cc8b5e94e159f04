//! Copies and fills that use the device: those within its memory. Copies from and to the host are
//! done by copy engines, in parallel to work of other programs.

use super::launch::copy;
use crate::driver::calls::{self, Stream};
use crate::driver::lists::copied;
use reef_cuda_abi::memory_types::{ATTRIBUTE, HOST, UNIFIED};
use std::cell::OnceCell;

/// Side of a copy of rows (`CUDA_MEMCPY2D`, `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER`): `N`
/// coordinates of its corner, and `M` words after its address.
#[repr(C)]
#[derive(Debug)]
struct Side<const N: usize, const M: usize> {
    corner: [usize; N],
    kind: u32,
    host: usize,
    device: usize,
    rest: [usize; M],
}

/// Copy of rows, as far as it is read.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Sides<const N: usize, const M: usize> {
    from: Side<N, M>,
    to: Side<N, M>,
}

/// `CUDA_MEMCPY2D`: after the address are an array and the rows' pitch.
pub(crate) type Flat = Sides<2, 2>;
/// `CUDA_MEMCPY3D`, also between contexts: an array, a context or nothing, and two distances.
pub(crate) type Deep = Sides<4, 4>;

/// Returns whether a side is memory of the device.
///
/// # Safety
///
/// The side has a kind and the address of that kind, as the driver requires. No other fields are
/// read, because they may be uninitialized.
unsafe fn is_device_side<const N: usize, const M: usize>(side: *const Side<N, M>) -> bool {
    // SAFETY: `# Safety` demands that `side` can be read, and that the program has initialized its
    // kind and the address of that kind, which alone are read.
    unsafe {
        match (*side).kind {
            HOST => is_on_device((*side).host),
            UNIFIED => is_on_device((*side).device),
            _ => true, // device memory or an array
        }
    }
}

/// Returns whether the driver knows an address as device memory. It returns an error for host
/// memory that isn't registered.
fn is_on_device(at: usize) -> bool {
    let mut kind = HOST;
    calls::pointer_attribute(&mut kind, ATTRIBUTE, at) == Some(0) && kind != HOST
}

/// Treats a fill, or a copy within the device by its name.
pub(crate) fn on_device(stream: Stream, real: impl FnOnce() -> u32) -> u32 {
    copy(stream, || true, real)
}

/// Treats a copy from or to this address of the host, by its name. The driver takes an address of
/// the device there, too, such as one of managed memory.
pub(crate) fn with_host(stream: Stream, host: usize, real: impl FnOnce() -> u32) -> u32 {
    copy(stream, || is_on_device(host), real)
}

/// Treats a copy between addresses that may be on the host.
pub(crate) fn between(stream: Stream, to: usize, from: usize, real: impl FnOnce() -> u32) -> u32 {
    copy(stream, || is_on_device(to) && is_on_device(from), real)
}

/// Treats a batch of copies between addresses in two lists, by `real`, which takes the places of
/// these. It is work if one of its copies is. If that is asked, the driver gets copies of the
/// lists: another thread of the program may change its own ones meanwhile.
pub(crate) fn batch(
    stream: Stream,
    [to, from]: [usize; 2],
    count: usize,
    real: impl FnOnce(usize, usize) -> u32,
) -> u32 {
    let own = OnceCell::new();
    let takes_device = || {
        // SAFETY: the driver demands that both lists are null or have `count` entries.
        let lists = unsafe {
            let [to, from] = [to, from].map(|list| list as *const usize);
            (copied(to, count), copied(from, count))
        };
        let (Some(to), Some(from)) = lists else { return true }; // there is no memory for copies
        let mut both = to.iter().zip(&from);
        let is_work = both.any(|(to, from)| is_on_device(*to) && is_on_device(*from));
        let is_kept = !to.is_empty() && !from.is_empty() && own.set([to, from]).is_ok();
        is_kept && is_work
    };
    copy(stream, takes_device, || match own.get().map(|lists| lists.each_ref().map(Vec::as_ptr)) {
        Some([to, from]) => real(to as usize, from as usize),
        None => real(to, from),
    })
}

/// Treats a copy of rows.
pub(crate) fn rows<const N: usize, const M: usize>(
    stream: Stream,
    sides: *const Sides<N, M>,
    real: impl FnOnce() -> u32,
) -> u32 {
    // SAFETY: not null here, and the driver demands a struct of this type, with a kind and an
    // address in each side. Nothing else of it is read.
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
    fn sides_have_the_offsets_of_the_headers() {
        assert_eq!((offset_of!(Side<2, 2>, kind), offset_of!(Side<2, 2>, device)), (16, 32));
        assert_eq!((offset_of!(Flat, to), offset_of!(Deep, to)), (56, 88));
        assert_eq!((offset_of!(Side<4, 4>, kind), offset_of!(Side<4, 4>, device)), (32, 48));
    }
}
