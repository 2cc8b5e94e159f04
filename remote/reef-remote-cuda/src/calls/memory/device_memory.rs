//! Memory of the device: allocations within what the worker has leased are made here.

use crate::calls::export::{check, give, plain, ptsz};
use crate::calls::table::table;
use crate::session::{Session, session};
use crate::state::leases::{Block, Demand, Leases, is_in};
use crate::state::thread::{contexts, in_thread};
use reef_cuda_abi::codes::*;
use reef_remote_calls::{Call, FreeLeased, Lease, has_range};
use reef_wire::little_endian::U64;
use reef_wire::{Hot, hot_bytes};

plain! {
    cuMemAlloc_v2(at: *mut u64, bytes: u64) = alloc;
    cuMemAllocPitch_v2(at: *mut u64, pitch: *mut u64, width: u64, height: u64, element: u32) = alloc_pitch;
    cuMemFree_v2(at: u64) = free;
    cuMemGetInfo_v2(left: *mut u64, total: *mut u64) = info;
    cuMemGetAddressRange_v2(base: *mut u64, bytes: *mut u64, at: u64) = range;
}

ptsz! {
    cuMemFreeAsync / cuMemFreeAsync_ptsz(at: u64, on: usize) = free_in_stream;
}

/// Unit of the lengths of rows, as of the driver's.
const PITCH: u64 = 512;
/// Lengths of the elements that rows may have.
const ELEMENTS: [u32; 3] = [4, 8, 16];

/// The current context and its device, if allocations are made here: the session has a window, and
/// nothing has failed for good.
fn own(session: &Session) -> Result<Option<(u64, i32)>, u32> {
    if session.facts.window.is_none() || session.is_broken() {
        return Ok(None);
    }
    let context = in_thread(|thread| thread.context())?;
    Ok(contexts().get(&context).map(|device| (context, *device)))
}

unsafe fn alloc(at: *mut u64, bytes: u64) -> Result<(), u32> {
    let session = session()?;
    match own(session)? {
        Some(of) if bytes > 0 && !at.is_null() => {
            session.check_earlier()?;
            let found = find_room(session, of, bytes)?;
            // SAFETY: not null, and cuMemAlloc demands that `at` may be written.
            unsafe { give(at, found) }
        }
        // SAFETY: cuMemAlloc demands that `at` is null or may be written. The number of bytes is
        // passed on unread.
        _ => unsafe { table(Call::cuMemAlloc_v2, false, &[at as usize, bytes as usize]) },
    }
}

fn find_room(session: &Session, of: (u64, i32), bytes: u64) -> Result<u64, u32> {
    let demand = match Leases::take(of.0, bytes) {
        Ok(at) => return Ok(at),
        Err(demand) => demand,
    };
    let leased = match lease(session, demand) {
        // Leases that have no allocation would be free memory without a window.
        Err(OUT_OF_MEMORY) if return_spare(session, of.0)? => lease(session, demand),
        other => other,
    };
    let (base, leased) = leased?;
    Ok(Leases::add(of, base, leased, bytes))
}

fn lease(session: &Session, demand: Demand) -> Result<(u64, u64), u32> {
    let Demand { least, wished } = demand;
    let head = Lease { least: U64::new(least), wished: U64::new(wished) };
    let (code, reply) = session.call(Lease::OP, &[hot_bytes(&head)])?;
    check(code)?;
    let word = |at: usize| {
        let word = reply.get(at..at + 8)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    };
    let leased = word(0).zip(word(8)).filter(|&(base, len)| {
        len >= least && session.facts.window.is_some_and(|window| has_range(window, base, len))
    });
    leased.ok_or(DEVICE_UNAVAILABLE)
}

/// Returns whether there were leases without allocations.
fn return_spare(session: &Session, context: u64) -> Result<bool, u32> {
    let spare = Leases::take_spare();
    if !spare.is_empty() {
        end_leases(session, context, &spare)?;
    }
    Ok(!spare.is_empty())
}

/// Waits as a free does, and ends leases.
fn end_leases(session: &Session, context: u64, ends: &[u64]) -> Result<(), u32> {
    let head = FreeLeased { context: U64::new(context) };
    let ends: Vec<u8> = ends.iter().flat_map(|base| base.to_le_bytes()).collect();
    check(session.call(FreeLeased::OP, &[hot_bytes(&head), &ends])?.0)
}

unsafe fn alloc_pitch(
    at: *mut u64,
    pitch: *mut u64,
    width: u64,
    height: u64,
    element: u32,
) -> Result<(), u32> {
    let row = width.checked_next_multiple_of(PITCH);
    let bytes = row.and_then(|row| row.checked_mul(height)).filter(|bytes| *bytes > 0);
    let is_well = ELEMENTS.contains(&element) && !at.is_null() && !pitch.is_null();
    match (own(session()?)?, row, bytes) {
        (Some(_), Some(row), Some(bytes)) if is_well => {
            // SAFETY: neither is null here, and cuMemAllocPitch demands that `at` and `pitch` may
            // be written.
            unsafe {
                alloc(at, bytes)?;
                give(pitch, row)
            }
        }
        _ => {
            let (width, height) = (width as usize, height as usize);
            let args = [at as usize, pitch as usize, width, height, element as usize];
            // SAFETY: cuMemAllocPitch demands that `at` and `pitch` are null or may be written. The
            // other arguments are numbers.
            unsafe { table(Call::cuMemAllocPitch_v2, false, &args) }
        }
    }
}

fn free(at: u64) -> Result<(), u32> {
    let session = session()?;
    if !is_in(session.facts.window, at) {
        // SAFETY: no address of the host's.
        return unsafe { table(Call::cuMemFree_v2, false, &[at as usize]) };
    }
    let (block, ends) = Leases::begin_free(at).ok_or(INVALID_VALUE)?;
    end_leases(session, block.context, ends.as_slice())?;
    if ends.is_none() {
        Leases::end_free(&block);
    }
    Ok(())
}

/// Memory that was allocated without a stream ends when the stream has come there: this waits.
fn free_in_stream(is_ptsz: bool, at: u64, on: usize) -> Result<(), u32> {
    if !is_in(session()?.facts.window, at) {
        // SAFETY: no address of the host's.
        return unsafe { table(Call::cuMemFreeAsync, is_ptsz, &[at as usize, on]) };
    }
    if Leases::find(at).is_none_or(|block| block.at != at) {
        return Err(INVALID_VALUE);
    }
    // SAFETY: no address of the host's.
    unsafe { table(Call::cuStreamSynchronize, is_ptsz, &[on]) }?;
    free(at)
}

/// Leased memory without an allocation counts as free.
unsafe fn info(left: *mut u64, total: *mut u64) -> Result<(), u32> {
    let session = session()?;
    // SAFETY: cuMemGetInfo demands that `left` and `total` are null or may be written.
    unsafe { table(Call::cuMemGetInfo_v2, false, &[left as usize, total as usize]) }?;
    if let (Some((_, device)), false) = (own(session)?, left.is_null()) {
        // SAFETY: the call has written there.
        let driver = unsafe { left.read_unaligned() };
        // SAFETY: not null, and cuMemGetInfo demands that `left` may be written.
        unsafe { left.write_unaligned(driver.saturating_add(Leases::spare(device))) };
    }
    Ok(())
}

unsafe fn range(base: *mut u64, bytes: *mut u64, at: u64) -> Result<(), u32> {
    let session = session()?;
    if !is_in(session.facts.window, at) {
        let args = [base as usize, bytes as usize, at as usize];
        // SAFETY: cuMemGetAddressRange demands that `base` and `bytes` are null or may be written.
        // The address is passed on unread.
        return unsafe { table(Call::cuMemGetAddressRange_v2, false, &args) };
    }
    let has_context = own(session)?.is_some() || session.is_broken();
    let block = Leases::find(at).filter(|_| has_context);
    let block = block.ok_or(if has_context { NOT_FOUND } else { INVALID_CONTEXT })?;
    for (place, value) in [(base, block.at), (bytes, block.bytes)] {
        if !place.is_null() {
            // SAFETY: not null, and cuMemGetAddressRange demands that it may be written.
            unsafe { give(place, value) }?;
        }
    }
    Ok(())
}

/// Attribute of an allocation, as a number. `None`: it is not told.
pub(super) fn attribute(block: &Block, attribute: u32, at: u64) -> Option<u64> {
    Some(match attribute {
        1 => block.context, // the context's handle
        2 => 2,             // CU_MEMORYTYPE_DEVICE
        3 => at,
        6 | 8 => 0, // no synchronous operations, not managed
        7 => block.number,
        9 => block.device as u64,
        10 => 0, // no handles for other processes
        11 => block.at,
        12 => block.bytes,
        13 => 1, // mapped
        _ => return None,
    })
}
