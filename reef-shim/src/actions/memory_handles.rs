//! Memory by handles.

use super::reserve::{firmly, reserved};
use crate::driver::calls::{self, Stream};
use crate::driver::state::Inside;
use crate::limit::device::{self, Standing};
use crate::limit::memory_handles::{Holder, Region, pieces};
use crate::limit::pending;
use crate::limit::refusal::OUT_OF_MEMORY;

/// `CUmemAllocationProp`, as far as it is read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    kind: u32,
    handles: u32,
    location: u32,
    ordinal: i32,
}

/// `CU_MEM_LOCATION_TYPE_DEVICE` and `…_DEVICE_LOCALITY_DOMAIN`, whose first byte is the device.
const DEVICE: u32 = 1;
const PART: u32 = 6;
/// `CU_MEM_ALLOCATION_TYPE_MANAGED`: it moves to where it is used.
const MANAGED: u32 = 2;

impl Place {
    pub(super) fn new(kind: u32, [location, ordinal]: [u32; 2]) -> Self {
        Self { kind, handles: 0, location, ordinal: ordinal as i32 }
    }

    /// Whose memory it is.
    pub(super) fn owner(&self) -> Owner {
        match (self.location, self.kind) {
            (DEVICE, _) => Owner::Device(self.ordinal),
            (PART, _) => Owner::Device(self.ordinal & 0xff),
            (_, MANAGED) => Owner::Any,
            _ => Owner::Host,
        }
    }
}

/// Whose memory something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Device(i32),
    /// The current context's device, whichever that is when it is used.
    Any,
    Host,
}

impl Owner {
    /// Where an allocation stands.
    fn standing(self) -> Standing {
        match self {
            Self::Device(ordinal) => device::of(ordinal),
            Self::Any => device::current(),
            Self::Host => Standing::Free,
        }
    }
}

/// Makes a piece of memory.
pub(crate) fn create(
    handle: *mut u64,
    bytes: usize,
    place: *const Place,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    // SAFETY: null, or the program's promise to the driver.
    let place = unsafe { place.as_ref() }.filter(|_| !handle.is_null());
    let standing = place.map(|place| place.owner().standing());
    firmly(|| match standing {
        None | Some(Standing::Free) => real(),
        Some(Standing::Broken) => OUT_OF_MEMORY,
        Some(Standing::Limited(device)) => reserved(device, bytes as u64, real, || {
            // SAFETY: where the driver has just written.
            pieces().create(unsafe { *handle }, Some(device), bytes as u64);
        }),
    })
}

/// Releases a handle. The lock is held meanwhile: the driver may give the same handle to another
/// thread at once.
pub(crate) fn release(handle: u64, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let mut pieces = pieces();
    let code = real();
    if code == 0 {
        pieces.release(handle);
    }
    code
}

/// Maps a piece.
pub(crate) fn map(at: u64, bytes: usize, handle: u64, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let mut pieces = pieces();
    let code = real();
    if code == 0 {
        pieces.map(at, bytes as u64, handle);
    }
    code
}

/// Ends mappings. It may wait for the device, so no lock is held: addresses stay the program's.
pub(crate) fn unmap(at: u64, bytes: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    if code == 0 {
        pieces().unmap(at, bytes as u64);
    }
    code
}

/// Asks for the handle of what is mapped at an address.
pub(crate) fn retain(handle: *mut u64, at: u64, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let mut pieces = pieces();
    let code = real();
    // SAFETY: null, or where the driver has just written.
    if let (0, Some(handle)) = (code, unsafe { handle.as_ref() }) {
        pieces.retain(*handle, at);
    }
    code
}

/// Gives a piece to others, who may keep it: it has no end that could be seen.
pub(crate) fn export(handle: u64, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    if code == 0 {
        let mut pieces = pieces();
        let piece = pieces.of_handle(handle);
        piece.into_iter().for_each(|piece| pieces.export(piece));
    }
    code
}

/// The same of what is mapped at an address.
pub(crate) fn export_at(address: u64, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    if code == 0 {
        let mut pieces = pieces();
        let piece = pieces.at(address);
        piece.into_iter().for_each(|piece| pieces.export(piece));
    }
    code
}

/// Makes a multicast object, which has no memory of its own.
pub(crate) fn object(handle: *mut u64, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    // SAFETY: null, or where the driver has just written.
    if let (0, Some(handle)) = (code, unsafe { handle.as_ref() }) {
        pieces().create(*handle, None, 0);
    }
    code
}

/// Binds a piece, by its handle or an address, to an object, which keeps it.
pub(crate) fn bind(
    object: u64,
    (at, bytes): (usize, usize),
    from: Result<u64, u64>,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    if code == 0 {
        let (mut pieces, region) = (pieces(), Region([at as u64, bytes as u64, 0, 0]));
        let piece = match from {
            Ok(handle) => pieces.of_handle(handle),
            Err(address) => pieces.at(address),
        };
        if let (Some(holder), Some(piece)) = (pieces.object(object), piece) {
            pieces.put(holder, region, piece);
        }
    }
    code
}

/// Takes what is bound in a range out of an object.
pub(crate) fn unbind(object: u64, at: usize, bytes: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    if code == 0 {
        let (mut pieces, end) = (pieces(), at.saturating_add(bytes) as u64);
        if let Some(holder) = pieces.object(object) {
            pieces.take(holder, |region| (at as u64..end).contains(&region.0[0]));
        }
    }
    code
}

/// `CUarrayMapInfo`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    kind: u32,
    array: usize,
    part: u32,
    region: Region,
    operation: u32,
    handles: u32,
    handle: u64,
    offset: u64,
    rest: [u32; 4],
}

/// `CU_MEM_OPERATION_TYPE_MAP`; the other one is its end.
const MAP: u32 = 1;

/// Maps pieces into sparse arrays, which keep them, or takes them out once the stream has come so
/// far.
pub(crate) fn map_arrays(
    list: *const Mapping,
    count: u32,
    stream: Stream,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    if code != 0 || list.is_null() {
        return code;
    }
    for at in 0..count as usize {
        // SAFETY: the program's promise to the driver, which has just read so many.
        let Mapping { array, region, operation, handle, .. } = unsafe { list.add(at).read() };
        let holder = Holder::Array(array);
        let gone = pieces().take_out(holder, region);
        if !gone.is_empty() {
            calls::relaxed(|| pending::add(stream, move || pieces().leave(&gone)));
        }
        if operation == MAP {
            let mut pieces = pieces();
            let piece = pieces.of_handle(handle);
            piece.into_iter().for_each(|piece| pieces.put(holder, region, piece));
        }
    }
    code
}
