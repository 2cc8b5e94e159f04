//! Reserved addresses: what is mapped there can be read and written, and nothing else can.

use crate::api::export::{give, plain};
use crate::engine::settings::setting;
use crate::engine::world::world;
use reef_cuda_abi::codes::*;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;

/// Unit of physical memory, and of addresses.
const UNIT: usize = 2 << 20;

plain! {
    cuMemAddressReserve(to: *mut usize, bytes: usize, alignment: usize, near: usize, flags: u64) = reserve;
    cuMemAddressFree(at: usize, bytes: usize) = free;
    cuMemSetAccess(at: usize, bytes: usize, access: *const u32, count: usize) = set_access;
    cuMemGetAllocationGranularity(bytes: *mut usize, of: *const u32, which: u32) = granularity;
}

/// Anonymous memory that can't be touched: at an address of the system's if `at` is 0, otherwise
/// at this one as `fixed` says.
fn untouchable(at: usize, bytes: usize, fixed: i32) -> Option<usize> {
    let fixed = if at == 0 { 0 } else { fixed };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    // SAFETY: a new mapping, or one in the place of another of ours.
    let got = unsafe { libc::mmap(at as *mut _, bytes, libc::PROT_NONE, flags, -1, 0) };
    (got != libc::MAP_FAILED).then_some(got as usize)
}

/// At the address that is asked for, if nothing of this process is there; otherwise the driver
/// says nothing, and gives another one. `REEF_FAKE_RESERVE=0`: there are no addresses.
unsafe fn reserve(
    to: *mut usize,
    bytes: usize,
    _alignment: usize,
    near: usize,
    _flags: u64,
) -> u32 {
    if bytes == 0 || !bytes.is_multiple_of(UNIT) {
        return INVALID_VALUE;
    }
    if setting("REEF_FAKE_RESERVE", 1) == 0 {
        return OUT_OF_MEMORY;
    }
    let is_aligned = near != 0 && near.is_multiple_of(UNIT);
    let there = is_aligned.then(|| untouchable(near, bytes, libc::MAP_FIXED_NOREPLACE)).flatten();
    let got = there.or_else(|| untouchable(0, bytes.saturating_add(UNIT), 0));
    let Some(got) = got else { return OUT_OF_MEMORY };
    let at = got.next_multiple_of(UNIT);
    world().reserved.insert(at, bytes);
    // SAFETY: cuMemAddressReserve demands that `to` may be written; null is left out.
    unsafe { give(to, at) };
    SUCCESS
}

/// The range stays unusable: the system doesn't give it again, so a later use is seen.
unsafe fn free(at: usize, bytes: usize) -> u32 {
    let mut world = world();
    let is_free = world.mapped.range(at..at.saturating_add(bytes)).next().is_none();
    match world.reserved.get(&at) {
        Some(reserved) if *reserved == bytes && is_free => {
            world.reserved.remove(&at);
            SUCCESS
        }
        _ => INVALID_VALUE,
    }
}

fn is_reserved(at: usize, bytes: usize) -> bool {
    let world = world();
    let before = world.reserved.range(..=at).next_back();
    before.is_some_and(|(from, reserved)| at.saturating_add(bytes) <= from + reserved)
}

/// Maps a piece's bytes, which nothing may touch before it has access. Other addresses are names
/// alone.
pub(super) fn map(at: usize, bytes: usize, piece: usize) -> Result<(), u32> {
    if !is_reserved(at, bytes) {
        return Ok(());
    }
    let mut world = world();
    if world.mapped.range(at..at.saturating_add(bytes)).next().is_some() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: a name; the file is new.
    let file = world.files.entry(piece).or_insert_with(|| unsafe {
        std::fs::File::from_raw_fd(libc::memfd_create(c"piece".as_ptr(), libc::MFD_CLOEXEC))
    });
    file.set_len(bytes as u64).map_err(|_| OUT_OF_MEMORY)?;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    // SAFETY: in the place of a mapping of ours.
    let got =
        unsafe { libc::mmap(at as *mut _, bytes, libc::PROT_NONE, flags, file.as_raw_fd(), 0) };
    if ptr::eq(got, libc::MAP_FAILED) { Err(OUT_OF_MEMORY) } else { Ok(()) }
}

/// A process that touches the range from now on dies of it, as a kernel on a device does.
pub(super) fn unmap(at: usize, bytes: usize) {
    if is_reserved(at, bytes) {
        let _ = untouchable(at, bytes, libc::MAP_FIXED);
    }
}

unsafe fn set_access(at: usize, bytes: usize, _access: *const u32, _count: usize) -> u32 {
    if is_reserved(at, bytes) {
        // SAFETY: a mapping of ours.
        unsafe { libc::mprotect(at as *mut _, bytes, libc::PROT_READ | libc::PROT_WRITE) };
    }
    SUCCESS
}

unsafe fn granularity(bytes: *mut usize, _of: *const u32, _which: u32) -> u32 {
    // SAFETY: cuMemGetAllocationGranularity demands that `bytes` may be written; null is left out.
    // The properties are not read.
    unsafe { give(bytes, UNIT) };
    SUCCESS
}
