//! Calls of the driver that make, map and copy memory.

use crate::driver::calls::calls;
use crate::driver::names;
use crate::driver::slots::real;
use reef_cuda_abi::codes::NOT_FOUND;
use std::ffi::c_void;

/// `CUmemAllocationProp`: pinned memory of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Properties {
    kind: u32,
    handles: u32,
    location: u32,
    ordinal: i32,
    rest: [u64; 2],
}

/// `CUmemAccessDesc`: a location, and reads and writes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    location: u32,
    ordinal: i32,
    flags: u32,
}

impl Properties {
    pub(super) fn of(ordinal: i32) -> Self {
        Self { kind: 1, location: 1, ordinal, ..Self::default() }
    }
}

impl Access {
    pub(super) fn of(ordinal: i32) -> Self {
        Self { location: 1, ordinal, flags: 3 }
    }
}

calls! {
    reserve = cuMemAddressReserve(at: &mut usize, bytes: usize, alignment: usize, near: usize, flags: u64);
    create = cuMemCreate(handle: &mut u64, bytes: usize, of: &Properties, flags: u64);
    map = cuMemMap(at: usize, bytes: usize, offset: usize, handle: u64, flags: u64);
    set_access = cuMemSetAccess(at: usize, bytes: usize, access: &Access, count: usize);
    granularity = cuMemGetAllocationGranularity(bytes: &mut usize, of: &Properties, which: u32);
    synchronize = cuCtxSynchronize();
    host_alloc = cuMemHostAlloc(at: &mut usize, bytes: usize, flags: u32);
    create_stream = cuStreamCreate(stream: &mut usize, flags: u32);
    wait_event = cuEventSynchronize(event: usize);
    wait_stream = cuStreamSynchronize(stream: usize);
}

calls! {
    unsafe:
    /// # Safety
    ///
    /// Nothing uses the mapping.
    unmap = cuMemUnmap(at: usize, bytes: usize);
    /// # Safety
    ///
    /// The handle is not used again.
    release = cuMemRelease(handle: u64);
    /// # Safety
    ///
    /// Nothing is mapped there, and the range is not used again.
    free_address = cuMemAddressFree(at: usize, bytes: usize);
    /// # Safety
    ///
    /// Nothing uses the memory.
    free_host = cuMemFreeHost(at: *mut c_void);
    /// # Safety
    ///
    /// Its work has ended.
    destroy_stream = cuStreamDestroy_v2(stream: usize);
    /// # Safety
    ///
    /// Both ranges live until the copy has ended; nothing writes to the first meanwhile.
    copy_to_host = cuMemcpyDtoHAsync_v2(to: *mut c_void, from: usize, bytes: usize, stream: usize);
    /// # Safety
    ///
    /// As above.
    copy_to_device = cuMemcpyHtoDAsync_v2(to: usize, from: *const c_void, bytes: usize, stream: usize);
}

/// Returns an error for a code. A driver without the function has refused, too.
pub(super) fn check(what: &'static str, code: Option<u32>) -> Result<(), Refused> {
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(Refused { what, code }),
        None => Err(Refused { what, code: NOT_FOUND }),
    }
}

/// Call that the driver refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    what: &'static str,
    pub(super) code: u32,
}

impl Refused {
    pub(super) fn of(what: &'static str, code: u32) -> Self {
        Self { what, code }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: code {}", self.what, self.code)
    }
}
