//! Copies between host and device. Bytes for the device are taken at the call.

use super::device_memory;
use crate::calls::export::{check, plain, ptsz, stream};
use crate::calls::table::table;
use crate::session::{Session, session};
use crate::state::host_memory::HostMemory;
use crate::state::leases::{Leases, is_in};
use reef_cuda_abi::codes::*;
use reef_remote_calls::{Call, MAX_PIECE_LEN, ToDevice, ToHost, pointer_attribute_len};
use reef_replay::Op;
use reef_wire::little_endian::U64;
use reef_wire::{Hot, hot_bytes};

ptsz! {
    cuMemcpyHtoD_v2 / cuMemcpyHtoD_v2_ptds(to: u64, from: *const u8, bytes: usize) = to_device_now;
    cuMemcpyDtoH_v2 / cuMemcpyDtoH_v2_ptds(to: *mut u8, from: u64, bytes: usize) = to_host_now;
    cuMemcpyDtoD_v2 / cuMemcpyDtoD_v2_ptds(to: u64, from: u64, bytes: usize) = inside;
    cuMemcpyHtoDAsync_v2 / cuMemcpyHtoDAsync_v2_ptsz(to: u64, from: *const u8, bytes: usize, on: usize) = to_device;
    cuMemcpyDtoHAsync_v2 / cuMemcpyDtoHAsync_v2_ptsz(to: *mut u8, from: u64, bytes: usize, on: usize) = to_host;
    cuMemsetD8_v2 / cuMemsetD8_v2_ptds(to: u64, value: u8, count: usize) = fill8;
    cuMemsetD16_v2 / cuMemsetD16_v2_ptds(to: u64, value: u16, count: usize) = fill16;
    cuMemsetD32_v2 / cuMemsetD32_v2_ptds(to: u64, value: u32, count: usize) = fill32;
}

plain! {
    cuPointerGetAttribute(value: *mut u8, attribute: u32, at: u64) = attribute;
}

unsafe fn to_device(
    is_ptsz: bool,
    to: u64,
    from: *const u8,
    bytes: usize,
    on: usize,
) -> Result<(), u32> {
    // SAFETY: cuMemcpyHtoDAsync demands `bytes` bytes at `from`, which `up` reads before it
    // returns. Addresses of the device are passed on unread.
    unsafe { up(to, from, bytes, stream(on, is_ptsz), false) }
}

unsafe fn to_device_now(is_ptsz: bool, to: u64, from: *const u8, bytes: usize) -> Result<(), u32> {
    // SAFETY: cuMemcpyHtoD demands `bytes` bytes at `from`, which `up` reads before it returns.
    // Addresses of the device are passed on unread.
    unsafe { up(to, from, bytes, stream(0, is_ptsz), true) }
}

/// Sends bytes to the device.
///
/// # Errors
///
/// The driver's code.
///
/// # Safety
///
/// `from` has `bytes` bytes.
pub(super) unsafe fn up(
    to: u64,
    from: *const u8,
    bytes: usize,
    on: u64,
    waits: bool,
) -> Result<(), u32> {
    let session = session()?;
    if from.is_null() && bytes > 0 || !fits(session, to, bytes) {
        return Err(INVALID_VALUE);
    }
    let mut at = 0;
    while at < bytes {
        let len = (bytes - at).min(MAX_PIECE_LEN);
        // SAFETY: `# Safety` demands `bytes` bytes at `from`, and `at + len` is at most `bytes`.
        let piece = unsafe { std::slice::from_raw_parts(from.add(at), len) };
        let head = ToDevice { to: U64::new(to + at as u64), stream: U64::new(on) };
        at += len;
        // The copies are in order, so the last one's end is the end of all.
        check(if waits && at == bytes {
            session.call(ToDevice::OP, &[hot_bytes(&head), piece])?.0
        } else {
            let words = hot_bytes(&head);
            session.quiet(&Op { kind: ToDevice::OP, shape: &[], words, payload: piece })
        })?;
    }
    Ok(())
}

/// True if no byte of the window is meant that is beyond an allocation.
fn fits(session: &Session, at: u64, bytes: usize) -> bool {
    let end = at.saturating_add(bytes as u64);
    bytes == 0
        || !is_in(session.facts.window, at)
        || Leases::find(at).is_some_and(|block| end <= block.at + block.bytes)
}

unsafe fn to_host(
    is_ptsz: bool,
    to: *mut u8,
    from: u64,
    bytes: usize,
    on: usize,
) -> Result<(), u32> {
    // SAFETY: cuMemcpyDtoHAsync demands `bytes` bytes at `to` that may be written, and `down`
    // writes them before it returns.
    unsafe { down(to, from, bytes, stream(on, is_ptsz)) }
}

unsafe fn to_host_now(is_ptsz: bool, to: *mut u8, from: u64, bytes: usize) -> Result<(), u32> {
    // SAFETY: cuMemcpyDtoH demands `bytes` bytes at `to` that may be written, and `down` writes
    // them before it returns.
    unsafe { down(to, from, bytes, stream(0, is_ptsz)) }
}

/// Reads bytes from the device.
///
/// # Errors
///
/// The driver's code.
///
/// # Safety
///
/// `to` has room for `bytes` bytes.
pub(super) unsafe fn down(to: *mut u8, from: u64, bytes: usize, on: u64) -> Result<(), u32> {
    let session = session()?;
    if to.is_null() && bytes > 0 || !fits(session, from, bytes) {
        return Err(INVALID_VALUE);
    }
    let mut at = 0;
    while at < bytes {
        let len = (bytes - at).min(MAX_PIECE_LEN);
        let head = ToHost {
            from: U64::new(from + at as u64),
            bytes: U64::new(len as u64),
            stream: U64::new(on),
        };
        let before = session.sent();
        let (code, read) = session.call(ToHost::OP, &[hot_bytes(&head)])?;
        check(code)?;
        session.note_done(on, before);
        if read.len() != len {
            return Err(DEVICE_UNAVAILABLE);
        }
        // SAFETY: `# Safety` demands room for `bytes` bytes at `to`. `read` has `len` of them, and
        // `at + len` is at most `bytes`.
        unsafe { std::ptr::copy_nonoverlapping(read.as_ptr(), to.add(at), len) };
        at += len;
    }
    Ok(())
}

fn inside(is_ptsz: bool, to: u64, from: u64, bytes: usize) -> Result<(), u32> {
    let args = [to as usize, from as usize, bytes, 0];
    // SAFETY: no addresses of the host.
    unsafe { table(Call::cuMemcpyDtoDAsync_v2, is_ptsz, &args) }
}

fn fill8(is_ptsz: bool, to: u64, value: u8, count: usize) -> Result<(), u32> {
    // SAFETY: no addresses of the host.
    unsafe { table(Call::cuMemsetD8Async, is_ptsz, &[to as usize, value.into(), count, 0]) }
}

fn fill16(is_ptsz: bool, to: u64, value: u16, count: usize) -> Result<(), u32> {
    // SAFETY: no addresses of the host.
    unsafe { table(Call::cuMemsetD16Async, is_ptsz, &[to as usize, value.into(), count, 0]) }
}

fn fill32(is_ptsz: bool, to: u64, value: u32, count: usize) -> Result<(), u32> {
    // SAFETY: no addresses of the host.
    unsafe { table(Call::cuMemsetD32Async, is_ptsz, &[to as usize, value as usize, count, 0]) }
}

unsafe fn attribute(value: *mut u8, attribute: u32, at: u64) -> Result<(), u32> {
    let session = session()?;
    if value.is_null() {
        return Err(INVALID_VALUE);
    }
    if HostMemory::flags(at as usize).is_some() {
        return match attribute {
            2 => {
                // SAFETY: not null, and cuPointerGetAttribute demands room for a memory type of 4
                // bytes.
                unsafe { value.cast::<u32>().write_unaligned(1) }; // CU_MEMORYTYPE_HOST
                Ok(())
            }
            4 => {
                // SAFETY: not null, and cuPointerGetAttribute demands room for an address of 8
                // bytes.
                unsafe { value.cast::<u64>().write_unaligned(at) };
                Ok(())
            }
            8 => {
                // SAFETY: not null, and cuPointerGetAttribute demands room for a flag, of which 4
                // bytes are written.
                unsafe { value.cast::<u32>().write_unaligned(0) };
                Ok(())
            }
            _ => Err(INVALID_VALUE),
        };
    }
    let mut found = [0_u8; 16];
    if is_in(session.facts.window, at) {
        let block = Leases::find(at).ok_or(INVALID_VALUE)?;
        let told = device_memory::attribute(&block, attribute, at).ok_or(INVALID_VALUE)?;
        let len = if attribute == 1 {
            8
        } else {
            pointer_attribute_len(attribute).ok_or(INVALID_VALUE)?
        };
        // SAFETY: not null, and cuPointerGetAttribute demands room for the attribute's type, which
        // has `len` bytes, at most 8.
        unsafe { std::ptr::copy_nonoverlapping(told.to_le_bytes().as_ptr(), value, len) };
        return Ok(());
    }
    let len = pointer_attribute_len(attribute).ok_or(INVALID_VALUE)?;
    let args = [found.as_mut_ptr() as usize, attribute as usize, at as usize];
    // SAFETY: a place of this size.
    unsafe { table(Call::cuPointerGetAttribute, false, &args) }?;
    // SAFETY: not null, and cuPointerGetAttribute demands room for the attribute's type, which has
    // `len` bytes, at most 16.
    unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), value, len) };
    Ok(())
}
