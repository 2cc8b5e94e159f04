//! Memory is the host's: a device pointer is an address.

use super::current::current;
use super::export::{give, plain, ptsz};
use super::streams::{device_of, give_from, give_to, is_captured, resolve, wait_for, wait_for_all};
use crate::engine::checkpoint;
use crate::engine::device_memory;
use crate::engine::exports::Export;
use crate::engine::op::Op;
use crate::engine::pool::own_pool;
use crate::engine::settings::setting;
use crate::engine::shared_blocks::MAX_SHARED;
use crate::engine::world::{Registered, world};
use reef_cuda_abi::codes::*;
use reef_cuda_abi::layouts::{Memcpy2D, Memcpy2DSide};
use reef_cuda_abi::memory_types::{ATTRIBUTE, DEVICE, HOST};
use std::os::fd::IntoRawFd;
use std::sync::LazyLock;

plain! {
    cuMemAlloc_v2(to: *mut usize, bytes: usize) = alloc;
    cuMemFree_v2(at: usize) = free;
    cuMemHostAlloc(to: *mut usize, bytes: usize, flags: u32) = host_alloc;
    cuMemFreeHost(at: usize) = free;
    cuMemGetHandleForAddressRange(to: *mut i32, at: usize, bytes: usize, kind: u32, flags: u64) = export;
    cuMemHostRegister_v2(at: usize, bytes: usize, flags: u32) = register;
    cuMemHostUnregister(at: usize) = unregister;
    cuMemHostGetDevicePointer_v2(to: *mut usize, at: usize, flags: u32) = device_pointer;
    cuPointerGetAttribute(to: *mut u8, attribute: u32, at: usize) = attribute;
    cuMemGetAddressRange_v2(base: *mut usize, bytes: *mut usize, at: usize) = range;
}

ptsz! {
    cuMemcpyHtoDAsync_v2 / cuMemcpyHtoDAsync_v2_ptsz(to: usize, from: usize, bytes: usize, stream: usize) = copy;
    cuMemcpyDtoHAsync_v2 / cuMemcpyDtoHAsync_v2_ptsz(to: usize, from: usize, bytes: usize, stream: usize) = copy;
    cuMemcpyDtoDAsync_v2 / cuMemcpyDtoDAsync_v2_ptsz(to: usize, from: usize, bytes: usize, stream: usize) = copy_device;
    cuMemcpyAsync / cuMemcpyAsync_ptsz(to: usize, from: usize, bytes: usize, stream: usize) = copy;
    cuMemcpy2DAsync_v2 / cuMemcpy2DAsync_v2_ptsz(rows: *const Memcpy2D, stream: usize) = copy_rows;
    cuMemcpyDtoD_v2 / cuMemcpyDtoD_v2_ptds(to: usize, from: usize, bytes: usize) = copy_inside;
    cuMemcpyHtoA_v2 / cuMemcpyHtoA_v2_ptds(to: usize, offset: usize, from: usize, bytes: usize) = copy_to_array;
    cuMemcpyAtoA / cuMemcpyAtoA_ptds(to: usize, to_offset: u32, from: usize, from_offset: u32, bytes: u32) = copy_arrays;
    cuMemcpyHtoD_v2 / cuMemcpyHtoD_v2_ptds(to: usize, from: usize, bytes: usize) = copy_now;
    cuMemcpyDtoH_v2 / cuMemcpyDtoH_v2_ptds(to: usize, from: usize, bytes: usize) = copy_now;
    cuMemAllocAsync / cuMemAllocAsync_ptsz(to: *mut usize, bytes: usize, stream: usize) = alloc_in_stream;
    cuMemAllocFromPoolAsync / cuMemAllocFromPoolAsync_ptsz(to: *mut usize, bytes: usize, pool: usize, stream: usize) = alloc_from_pool;
    cuMemFreeAsync / cuMemFreeAsync_ptsz(at: usize, stream: usize) = free_in_stream;
    cuMemcpyBatchAsync_v2 / cuMemcpyBatchAsync_v2_ptsz(
        to: *const usize, from: *const usize, bytes: *const usize, count: usize, attributes: usize, from_which: usize,
        kinds: usize, stream: usize
    ) = copy_all;
    cuMemsetD8Async / cuMemsetD8Async_ptsz(to: usize, value: u8, bytes: usize, stream: usize) = fill;
    cuMemsetD2D8Async / cuMemsetD2D8Async_ptsz(
        to: usize, pitch: usize, value: u8, width: usize, height: usize, stream: usize
    ) = fill_rows;
    cuMemsetD8_v2 / cuMemsetD8_v2_ptds(to: usize, value: u8, bytes: usize) = fill_first;
}

fn address(side: &Memcpy2DSide) -> usize {
    if side.kind == HOST { side.host } else { side.device }
}

/// True if small allocations share blocks.
static SHARES: LazyLock<bool> = LazyLock::new(|| setting("REEF_FAKE_BLOCKS", 1) != 0);

/// Bytes that an allocation takes: small ones share units of 2 MiB, others have their own.
pub(crate) fn granted(bytes: usize) -> u64 {
    let unit = if bytes > MAX_SHARED { 2 << 20 } else { 512 };
    (bytes as u64).checked_next_multiple_of(unit).unwrap_or(u64::MAX)
}

/// Memory of the device, which has so much.
pub(crate) unsafe fn alloc(to: *mut usize, bytes: usize) -> u32 {
    if to.is_null() {
        return INVALID_VALUE;
    }
    world().end_closed_exports();
    let taken = granted(bytes);
    if *SHARES && (1..=MAX_SHARED).contains(&bytes) {
        // SAFETY: not null, and functions that allocate demand that `to` may be written.
        return unsafe { alloc_shared(to, bytes, taken) };
    }
    if bytes > 0 && !device_memory::take(taken) {
        return OUT_OF_MEMORY;
    }
    // SAFETY: not null, and functions that allocate demand that `to` may be written.
    let at = match unsafe { host_alloc(to, bytes, 0) } {
        // SAFETY: `host_alloc` has succeeded, so it has just written an address there.
        SUCCESS => unsafe { *to },
        code => return code,
    };
    let mut world = world();
    world.taken.insert(at, taken);
    let owner = current(&mut world).map_or(0, |context| context.owner);
    world.asked.insert(at, (bytes, owner));
    SUCCESS
}

/// Memory in a block that small allocations share.
unsafe fn alloc_shared(to: *mut usize, bytes: usize, taken: u64) -> u32 {
    let mut world = world();
    let owner = current(&mut world).map_or(0, |context| context.owner);
    let Some(at) = world.shared_blocks.allocate((owner, false), taken as usize) else {
        return OUT_OF_MEMORY;
    };
    world.memory.insert(at, Box::default()); // the block has its words
    world.taken.insert(at, taken);
    world.asked.insert(at, (bytes, owner));
    drop(world);
    checkpoint::forget_managed(at);
    // SAFETY: functions that allocate demand that `to` may be written; null is left out.
    unsafe { give(to, at) };
    SUCCESS
}

/// The device memory that has an address.
fn device_range(at: usize) -> Option<(usize, usize)> {
    let world = world();
    let is_device = |from: &usize| {
        world.taken.contains_key(from)
            || world.pooled.contains_key(from)
            || world.foreign.contains_key(from)
            || world.mapped.contains_key(from)
    };
    world.range(at).filter(|(from, _)| is_device(from))
}

unsafe fn range(base: *mut usize, bytes: *mut usize, at: usize) -> u32 {
    if let Err(code) = current(&mut world()) {
        return code;
    }
    let Some((from, len)) = device_range(at) else { return NOT_FOUND };
    // SAFETY: cuMemGetAddressRange demands that `base` and `bytes` are null or may be written; null
    // is left out.
    unsafe {
        give(base, from);
        give(bytes, len);
    }
    SUCCESS
}

pub(crate) unsafe fn host_alloc(to: *mut usize, bytes: usize, _flags: u32) -> u32 {
    if bytes == 0 || to.is_null() {
        return INVALID_VALUE;
    }
    let words = vec![0_u64; bytes.div_ceil(8)].into_boxed_slice();
    let at = words.as_ptr() as usize;
    world().memory.insert(at, words);
    // SAFETY: not null, and functions that allocate demand that `to` may be written.
    unsafe { give(to, at) };
    SUCCESS
}

/// A file that keeps the memory of this range as long as it is open, and that of a pool for ever.
unsafe fn export(to: *mut i32, at: usize, bytes: usize, kind: u32, _flags: u64) -> u32 {
    let mut world = world();
    if kind != 1 {
        return INVALID_VALUE;
    }
    let has = |from: &usize| {
        world
            .taken
            .get(from)
            .is_some_and(|taken| at.saturating_add(bytes) <= from + *taken as usize)
    };
    let owner = world.taken.keys().copied().filter(|from| *from <= at).find(has);
    let Some((export, file)) = Export::new() else { return OUT_OF_MEMORY };
    match owner {
        Some(owner) => world.exported.push((export, owner, None)),
        None if world.hold_pooled(at, bytes) => {}
        None => return INVALID_VALUE,
    }
    // SAFETY: cuMemGetHandleForAddressRange demands that `to` may be written, an `int` for a file;
    // null is left out.
    unsafe { give(to, file.into_raw_fd()) };
    SUCCESS
}

/// Waits for the device first, as the driver does.
unsafe fn free(at: usize) -> u32 {
    if at == 0 {
        return SUCCESS;
    }
    wait_for_all(None);
    let mut world = world();
    if world.free(at) { SUCCESS } else { INVALID_VALUE }
}

/// For the context that is current, which it ends with; for all of the process with flag 1
/// (portable).
unsafe fn register(at: usize, bytes: usize, flags: u32) -> u32 {
    let mut world = world();
    let owner = match current(&mut world) {
        Ok(context) => context.owner,
        Err(code) => return code,
    };
    if (at..at.saturating_add(bytes)).step_by(4096).any(|at| {
        world
            .registered
            .range(..=at)
            .next_back()
            .is_some_and(|(from, memory)| at < from + memory.bytes)
    }) {
        return ALREADY_REGISTERED;
    }
    world.registered.insert(at, Registered { bytes, owner, is_portable: flags & 1 != 0 });
    SUCCESS
}

unsafe fn unregister(at: usize) -> u32 {
    if world().registered.remove(&at).is_some() { SUCCESS } else { NOT_REGISTERED }
}

unsafe fn device_pointer(to: *mut usize, at: usize, _flags: u32) -> u32 {
    let mut world = world();
    let owner = match current(&mut world) {
        Ok(context) => context.owner,
        Err(code) => return code,
    };
    if !world.registered.contains_key(&at) || !world.is_visible(at, Some(owner)) {
        return INVALID_VALUE;
    }
    // SAFETY: cuMemHostGetDevicePointer demands that `to` may be written; null is left out.
    unsafe { give(to, at) };
    SUCCESS
}

unsafe fn copy(is_ptsz: bool, to: usize, from: usize, bytes: usize, stream: usize) -> u32 {
    give_to(is_ptsz, stream, Op::Copy { to, from, bytes })
}

unsafe fn copy_now(is_ptsz: bool, to: usize, from: usize, bytes: usize) -> u32 {
    match give_to(is_ptsz, 0, Op::Copy { to, from, bytes }) {
        SUCCESS => wait_for(is_ptsz, 0),
        code => code,
    }
}

/// Rows that lie one after the other are one copy, others are several.
unsafe fn copy_rows(is_ptsz: bool, rows: *const Memcpy2D, stream: usize) -> u32 {
    // SAFETY: cuMemcpy2DAsync demands a `CUDA_MEMCPY2D`, which the program does not change during
    // the call.
    let Memcpy2D { from, to, size: [width, height] } = unsafe { &*rows };
    if (from.pitch, to.pitch) == (*width, *width) {
        let bytes = width.saturating_mul(*height);
        return give_to(is_ptsz, stream, Op::Copy { to: address(to), from: address(from), bytes });
    }
    for row in 0..*height {
        let of = |side: &Memcpy2DSide| address(side).wrapping_add(row.wrapping_mul(side.pitch));
        let (to, from) = (of(to), of(from));
        let code = give_to(is_ptsz, stream, Op::Copy { to, from, bytes: *width });
        if code != SUCCESS {
            return code;
        }
    }
    SUCCESS
}

unsafe fn fill_rows(
    is_ptsz: bool,
    to: usize,
    pitch: usize,
    value: u8,
    width: usize,
    height: usize,
    stream: usize,
) -> u32 {
    let rows = if width == 0 { 0 } else { height };
    for row in 0..rows {
        let to = to.wrapping_add(row.wrapping_mul(pitch));
        let op = Op::Fill { to, value, bytes: width };
        let code = give_to(is_ptsz, stream, op);
        if code != SUCCESS {
            return code;
        }
    }
    SUCCESS
}

#[allow(clippy::too_many_arguments)] // the driver's
unsafe fn copy_all(
    is_ptsz: bool,
    to: *const usize,
    from: *const usize,
    bytes: *const usize,
    count: usize,
    _attributes: usize,
    _from_which: usize,
    _kinds: usize,
    stream: usize,
) -> u32 {
    for at in 0..count {
        // SAFETY: cuMemcpyBatchAsync demands `count` entries in each of the three lists, and `at`
        // is lower.
        let (to, from, bytes) = unsafe { (*to.add(at), *from.add(at), *bytes.add(at)) };
        let code = give_to(is_ptsz, stream, Op::Copy { to, from, bytes });
        if code != SUCCESS {
            return code;
        }
    }
    SUCCESS
}

unsafe fn copy_device(is_ptsz: bool, to: usize, from: usize, bytes: usize, stream: usize) -> u32 {
    give_from(is_ptsz, stream, Op::Copy { to, from, bytes }, true)
}

/// From the device to itself. The caller doesn't wait, as with the driver.
unsafe fn copy_inside(is_ptsz: bool, to: usize, from: usize, bytes: usize) -> u32 {
    give_to(is_ptsz, 0, Op::Copy { to, from, bytes })
}

/// Takes the time of a copy. Arrays have no contents.
unsafe fn copy_arrays(
    is_ptsz: bool,
    to: usize,
    _to_offset: u32,
    from: usize,
    _from_offset: u32,
    _bytes: u32,
) -> u32 {
    give_to(is_ptsz, 0, Op::Copy { to, from, bytes: 0 })
}

unsafe fn copy_to_array(
    is_ptsz: bool,
    to: usize,
    _offset: usize,
    from: usize,
    _bytes: usize,
) -> u32 {
    give_to(is_ptsz, 0, Op::Copy { to, from, bytes: 0 })
}

unsafe fn fill_first(is_ptsz: bool, to: usize, value: u8, bytes: usize) -> u32 {
    give_to(is_ptsz, 0, Op::Fill { to, value, bytes })
}

/// Tells attributes of an address of the device, as `CUpointer_attribute` numbers them. All others
/// are memory that the driver doesn't know.
unsafe fn attribute(to: *mut u8, attribute: u32, at: usize) -> u32 {
    let Some((from, bytes)) = device_range(at) else { return INVALID_VALUE };
    // SAFETY: cuPointerGetAttribute demands a place of the attribute's type; null is left out.
    unsafe {
        match attribute {
            1 => give(to.cast::<usize>(), super::current::handle()),
            ATTRIBUTE => give(to.cast::<u32>(), DEVICE),
            3 => give(to.cast::<usize>(), at),
            6 => give(to.cast::<u32>(), 0), // no synchronous operations
            8 => {
                let is_managed = checkpoint::is_managed(from) || world().is_of_managed_pool(from);
                give(to.cast::<u32>(), u32::from(is_managed));
            }
            9 => give(to.cast::<u32>(), 0),
            11 => give(to.cast::<usize>(), from),
            12 => give(to.cast::<usize>(), bytes),
            13 => give(to.cast::<u32>(), 1), // mapped
            _ => return INVALID_VALUE,
        }
    }
    SUCCESS
}

unsafe fn fill(is_ptsz: bool, to: usize, value: u8, bytes: usize, stream: usize) -> u32 {
    give_from(is_ptsz, stream, Op::Fill { to, value, bytes }, true)
}

/// In a capture it becomes a node, but here its memory is there from now on.
unsafe fn alloc_in_stream(is_ptsz: bool, to: *mut usize, bytes: usize, stream: usize) -> u32 {
    let device = match device_of(is_ptsz, stream) {
        Ok(device) => device,
        Err(code) => return code,
    };
    // SAFETY: cuMemAllocAsync demands that `to` may be written. `alloc_from_pool` refuses null.
    unsafe { alloc_from_pool(is_ptsz, to, bytes, own_pool(device), stream) }
}

unsafe fn alloc_from_pool(
    is_ptsz: bool,
    to: *mut usize,
    bytes: usize,
    pool: usize,
    stream: usize,
) -> u32 {
    if to.is_null() || bytes == 0 {
        return INVALID_VALUE;
    }
    if is_captured(is_ptsz, stream) {
        // SAFETY: not null, and cuMemAllocAsync demands that `to` may be written.
        return unsafe { alloc_in_capture(is_ptsz, to, bytes, stream) };
    }
    let mut world = world();
    if world.pools.get(&pool).is_some_and(|pool| pool.imported.is_some()) {
        return INVALID_VALUE;
    }
    let at = match resolve(&mut world, is_ptsz, stream) {
        Ok(stream) => world.use_pool(pool, bytes as u64, stream),
        Err(code) => return code,
    };
    // SAFETY: not null, and cuMemAllocFromPoolAsync demands that `to` may be written.
    at.map_or(OUT_OF_MEMORY, |at| unsafe {
        give(to, at);
        SUCCESS
    })
}

/// A node, whose memory is there from now on.
unsafe fn alloc_in_capture(is_ptsz: bool, to: *mut usize, bytes: usize, stream: usize) -> u32 {
    let mut at = 0;
    // SAFETY: a place of ours.
    unsafe { host_alloc(&raw mut at, bytes, 0) };
    world().note_of_graphs(at);
    // SAFETY: the function that calls this has refused null, and cuMemAllocAsync demands that `to`
    // may be written.
    unsafe { give(to, at) };
    give_to(is_ptsz, stream, Op::Memory { at, bytes: bytes as u64 })
}

unsafe fn free_in_stream(is_ptsz: bool, at: usize, stream: usize) -> u32 {
    let mut world = world();
    if !world.pooled.contains_key(&at) {
        let is_known = world.memory.contains_key(&at);
        drop(world);
        return if is_known { give_to(is_ptsz, stream, Op::Free(at)) } else { INVALID_VALUE };
    }
    let stream_of = match resolve(&mut world, is_ptsz, stream) {
        Ok(stream) => stream,
        Err(code) => return code,
    };
    let (pool, number) = world.leave_pool_in(at, stream_of).expect("is of a pool");
    drop(world);
    give_to(is_ptsz, stream, Op::Leave(pool, number))
}
