//! Arrays and rows; how much there is.

use crate::api::context::number_of;
use crate::api::current::current;
use crate::api::export::{give, plain};
use crate::engine::checkpoint;
use crate::engine::device_memory::{self, capacity, give_back, read};
use crate::engine::settings::setting;
use crate::engine::shared_blocks::{BLOCK, MAX_SHARED};
use crate::engine::world::world;
use reef_cuda_abi::codes::*;

plain! {
    cuMemAllocManaged(to: *mut usize, bytes: usize, flags: u32) = managed;
    cuMemPrefetchAsync(at: usize, bytes: usize, device: i32, stream: usize) = prefetch;
    cuMemPrefetchAsync_v2(at: usize, bytes: usize, place: u64, flags: u32, stream: usize) = prefetch_to;
    cuMemPrefetchBatchAsync(
        ranges: *const usize, sizes: *const usize, count: usize, places: *const u64, which: *const usize,
        place_count: usize, flags: u64, stream: usize
    ) = prefetch_all;
    cuMemAdvise_v2(at: usize, bytes: usize, advice: u32, place: u64) = advise;
    cuMemAllocPitch_v2(to: *mut usize, pitch: *mut usize, width: usize, height: usize, element: u32) = pitched;
    cuArrayCreate_v2(to: *mut usize, of: *const [usize; 3]) = array;
    cuArrayDestroy(array: usize) = end;
    cuArray3DCreate_v2(to: *mut usize, of: *const [usize; 5]) = deep;
    cuMipmappedArrayCreate(to: *mut usize, of: *const [usize; 5], levels: u32) = mipmapped;
    cuMipmappedArrayDestroy(array: usize) = end;
    cuDeviceTotalMem_v2(bytes: *mut usize, device: i32) = total;
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize) = info;
    cuMemGetInfo(free: *mut u32, total: *mut u32) = info_in_words;
    cuDeviceTotalMem(bytes: *mut u32, device: i32) = total_in_words;
    reef_fake_memory(now: *mut u64, peak: *mut u64) = taken;
}

/// Arrays that have no memory of their own: sparse ones, and those that are mapped later.
const WITHOUT_MEMORY: usize = 0x40 | 0x80;
/// Arrays whose depth is a number of layers or faces: `CUDA_ARRAY3D_LAYERED` and `…_CUBEMAP`.
const IN_LAYERS: usize = 0x01 | 0x04;
/// Units: bytes of a row, rows of a tile, bytes of a level, and of an array. Smaller arrays are
/// powers of two.
const ROW: u64 = 64;
const TILE: u64 = 8;
const LEVEL: u64 = 4 << 10;
const ARRAY: u64 = 64 << 10;

/// Takes device memory and makes a handle of it. Small arrays share blocks, others have their own.
unsafe fn make(to: *mut usize, bytes: u64) -> u32 {
    let is_small = (1..=MAX_SHARED as u64).contains(&bytes);
    let bytes = match bytes {
        _ if !is_small => round_up(bytes, BLOCK as u64),
        ..ARRAY => bytes.max(LEVEL).next_power_of_two(),
        _ => round_up(bytes, ARRAY),
    };
    let mut world = world();
    let owner = current(&mut world).map_or(0, |context| context.owner);
    let place = if is_small {
        world.shared_blocks.allocate((owner, true), bytes as usize)
    } else {
        device_memory::take(bytes).then_some(0)
    };
    let Some(place) = place else { return OUT_OF_MEMORY };
    let handle = world.handle();
    if is_small {
        world.small_arrays.insert(handle, place);
    }
    world.taken.insert(handle, bytes);
    world.asked.insert(handle, (bytes as usize, owner));
    // SAFETY: functions that create arrays demand that `to` may be written; null is left out.
    unsafe { give(to, handle) };
    SUCCESS
}

unsafe fn end(handle: usize) -> u32 {
    super::pieces::leave(handle, &|_| true);
    let mut world = world();
    world.asked.remove(&handle);
    let bytes = world.end_taken(handle);
    bytes.map(give_back).map_or(INVALID_HANDLE, |()| SUCCESS)
}

unsafe fn managed(to: *mut usize, bytes: usize, _flags: u32) -> u32 {
    // SAFETY: cuMemAllocManaged demands that `to` may be written. `alloc` refuses null, and has
    // written there when it succeeds.
    unsafe {
        let code = crate::api::memory::alloc(to, bytes);
        if code == 0 {
            crate::engine::checkpoint::note_managed(*to);
        }
        code
    }
}

/// Managed memory is the device's here. The lower half of a place is its kind, and 1 is a device.
/// Ordinary memory that is moved, or that follows managed memory in a range, is that from then on,
/// where the device has access to it (`REEF_FAKE_PAGEABLE`).
fn move_to(at: usize, bytes: usize, place: u64) -> u32 {
    if place as u32 != 1 {
        return SUCCESS;
    }
    let (mut from, end) = (at, at.saturating_add(bytes));
    while from < end {
        let range = world().range(from);
        let is_managed = |base| checkpoint::is_managed(base) || world().is_of_managed_pool(base);
        let managed = range.filter(|(base, _)| is_managed(*base));
        let Some((base, len)) = managed else { break };
        from = base + len;
    }
    let ordinary = end.saturating_sub(from);
    if ordinary == 0 {
        return SUCCESS;
    }
    if setting("REEF_FAKE_PAGEABLE", 0) == 0 {
        return INVALID_VALUE;
    }
    if device_memory::take(ordinary as u64) { SUCCESS } else { OUT_OF_MEMORY }
}

unsafe fn prefetch(at: usize, bytes: usize, device: i32, _stream: usize) -> u32 {
    move_to(at, bytes, u64::from(device >= 0))
}

unsafe fn prefetch_to(at: usize, bytes: usize, place: u64, _flags: u32, _stream: usize) -> u32 {
    move_to(at, bytes, place)
}

/// An advice other than the preferred place moves nothing.
unsafe fn advise(at: usize, bytes: usize, advice: u32, place: u64) -> u32 {
    if advice == 3 { move_to(at, bytes, place) } else { SUCCESS }
}

#[allow(clippy::too_many_arguments)] // the driver's
unsafe fn prefetch_all(
    ranges: *const usize,
    sizes: *const usize,
    count: usize,
    places: *const u64,
    _which: *const usize,
    _place_count: usize,
    _flags: u64,
    _stream: usize,
) -> u32 {
    // SAFETY: cuMemPrefetchBatchAsync demands `count` ranges and sizes, and at least one location,
    // which is that of all ranges here.
    let moved = |at| unsafe { move_to(*ranges.add(at), *sizes.add(at), *places) };
    (0..count).map(moved).find(|code| *code != SUCCESS).unwrap_or(SUCCESS)
}

unsafe fn pitched(
    to: *mut usize,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: u32,
) -> u32 {
    if width == 0 || height == 0 || ![4, 8, 16].contains(&element) {
        return INVALID_VALUE;
    }
    let row = width.checked_next_multiple_of(512);
    let row = row.filter(|row| row.checked_mul(height).is_some());
    let Some(row) = row else { return OUT_OF_MEMORY };
    // SAFETY: cuMemAllocPitch demands that `to` and `pitch` may be written. `alloc` refuses null
    // for `to`.
    unsafe {
        give(pitch, row);
        crate::api::memory::alloc(to, row * height)
    }
}

/// Width, height, and format with channels: elements of 4 bytes.
unsafe fn array(to: *mut usize, of: *const [usize; 3]) -> u32 {
    // SAFETY: cuArrayCreate demands a `CUDA_ARRAY_DESCRIPTOR`, which has three words.
    let [width, height, _] = unsafe { *of };
    if width == 0 {
        return INVALID_VALUE;
    }
    // SAFETY: cuArrayCreate demands that `to` may be written, which is all that `make` requires.
    unsafe { make(to, level([width, height, 0], 0)) }
}

unsafe fn deep(to: *mut usize, of: *const [usize; 5]) -> u32 {
    // SAFETY: cuArray3DCreate has the same demands as cuMipmappedArrayCreate: a descriptor, and a
    // place for the handle.
    unsafe { mipmapped(to, of, 1) }
}

/// Each level is padded by itself, and has all layers.
unsafe fn mipmapped(to: *mut usize, of: *const [usize; 5], levels: u32) -> u32 {
    // SAFETY: cuMipmappedArrayCreate demands a `CUDA_ARRAY3D_DESCRIPTOR`, which has five words.
    let [width, height, depth, _, flags] = unsafe { *of };
    let pad = |bytes: u64| if levels > 1 { round_up(bytes, LEVEL) } else { bytes };
    let size = |at| match flags & IN_LAYERS {
        0 => level([width, height, depth], at),
        _ => level([width, height, 0], at).saturating_mul(depth.max(1) as u64),
    };
    let sizes = (0..levels).map(|at| pad(size(at)));
    let bytes = sizes.fold(0, u64::saturating_add);
    let is_empty = flags & WITHOUT_MEMORY != 0;
    // SAFETY: cuMipmappedArrayCreate demands that `to` may be written, which is all that `make`
    // requires.
    unsafe { make(to, if is_empty { 0 } else { bytes }) }
}

/// As on an H200: also a line has tiles of eight rows. A depth is a multiple of 16, or a smaller
/// power of two.
fn level(sides: [usize; 3], at: u32) -> u64 {
    let [width, height, depth] = sides.map(|side| side.checked_shr(at).unwrap_or(0).max(1) as u64);
    let rows = round_up(height, TILE);
    let depth = round_up(depth, depth.min(16).next_power_of_two());
    round_up(width.saturating_mul(4), ROW).saturating_mul(rows).saturating_mul(depth)
}

fn round_up(bytes: u64, unit: u64) -> u64 {
    bytes.checked_next_multiple_of(unit).unwrap_or(u64::MAX)
}

unsafe fn total(bytes: *mut usize, device: i32) -> u32 {
    if let Err(code) = number_of(device) {
        return code;
    }
    // SAFETY: cuDeviceTotalMem demands that `bytes` may be written; null is left out.
    unsafe { give(bytes, capacity() as usize) };
    SUCCESS
}

unsafe fn info(free: *mut usize, total: *mut usize) -> u32 {
    world().end_closed_exports();
    let (now, _) = read();
    // SAFETY: cuMemGetInfo demands that `free` and `total` may be written; null is left out.
    unsafe {
        give(free, (capacity() - now) as usize);
        give(total, capacity() as usize);
    }
    SUCCESS
}

/// As in CUDA 3: numbers of 32 bits, at most the largest one.
unsafe fn info_in_words(free: *mut u32, total: *mut u32) -> u32 {
    let mut all = [0_usize; 2];
    let [left, most] = all.each_mut();
    // SAFETY: places of ours.
    let code = unsafe { info(left, most) };
    let word = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    // SAFETY: cuMemGetInfo demands that `free` and `total` may be written; null is left out.
    unsafe {
        give(free, word(all[0]));
        give(total, word(all[1]));
    }
    code
}

unsafe fn total_in_words(bytes: *mut u32, device: i32) -> u32 {
    let mut all = 0;
    // SAFETY: a place of ours.
    let code = unsafe { total(&raw mut all, device) };
    // SAFETY: cuDeviceTotalMem demands that `bytes` may be written; null is left out.
    unsafe { give(bytes, u32::try_from(all).unwrap_or(u32::MAX)) };
    code
}

/// Bytes of the device that are taken now, and the most that ever were, by all processes with the
/// same file.
unsafe fn taken(now: *mut u64, peak: *mut u64) -> u32 {
    world().end_closed_exports();
    let (own, most) = read();
    // SAFETY: tests pass the addresses of two locals here; null is left out.
    unsafe {
        give(now, own);
        give(peak, most);
    }
    SUCCESS
}
