//! The device's memory by other ways than `cuMemAlloc`: arrays, pieces by handles, pools.

use super::code::*;
use super::export::{give, plain};
use crate::engine::device_memory::{self, Piece, capacity, give_back, read};
use crate::engine::world::{World, world};

/// The driver takes memory for pools in multiples of this.
const POOL_UNIT: u64 = 2 << 20;

plain! {
    cuMemAllocManaged(to: *mut usize, bytes: usize, flags: u32) = managed;
    cuMemAllocPitch_v2(to: *mut usize, pitch: *mut usize, width: usize, height: usize, element: u32) = pitched;
    cuArrayCreate_v2(to: *mut usize, of: *const [usize; 3]) = array;
    cuArrayDestroy(array: usize) = end;
    cuArray3DCreate_v2(to: *mut usize, of: *const [usize; 5]) = deep;
    cuMipmappedArrayCreate(to: *mut usize, of: *const [usize; 5], levels: u32) = mipmapped;
    cuMipmappedArrayDestroy(array: usize) = end;
    cuMemCreate(handle: *mut usize, bytes: usize, place: *const [u32; 4], flags: u64) = create;
    cuMemRelease(handle: usize) = release;
    cuMemRetainAllocationHandle(handle: *mut usize, at: usize) = retain;
    cuMemMap(at: usize, bytes: usize, offset: usize, handle: usize, flags: u64) = map;
    cuMemUnmap(at: usize, bytes: usize) = unmap;
    cuMemPoolGetAttribute(pool: usize, attribute: u32, value: *mut u64) = attribute;
    cuMemPoolTrimTo(pool: usize, keep: usize) = trim;
    cuMemPoolCreate(pool: *mut usize, of: usize) = create_pool;
    cuMemPoolDestroy(pool: usize) = destroy_pool;
    cuDeviceGetMemPool(pool: *mut usize, device: i32) = current_pool;
    cuDeviceGetDefaultMemPool(pool: *mut usize, device: i32) = current_pool;
    cuDeviceTotalMem_v2(bytes: *mut usize, device: i32) = total;
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize) = info;
    reef_fake_memory(now: *mut u64, peak: *mut u64) = taken;
}

/// The pool of the first device itself; the next devices' follow.
const POOL: usize = 0x9001;

/// A device's own pool.
pub(crate) fn own_pool(device: usize) -> usize {
    POOL + device
}

/// Takes device memory and makes a handle of it.
unsafe fn make(to: *mut usize, bytes: u64) -> u32 {
    if bytes == 0 {
        return INVALID_VALUE;
    }
    if !device_memory::take(bytes) {
        return OUT_OF_MEMORY;
    }
    let mut world = world();
    let handle = world.handle();
    world.taken.insert(handle, bytes);
    // SAFETY: the caller's promise.
    unsafe { give(to, handle) };
    SUCCESS
}

unsafe fn end(handle: usize) -> u32 {
    let bytes = world().taken.remove(&handle);
    bytes.map(give_back).map_or(INVALID_HANDLE, |()| SUCCESS)
}

unsafe fn managed(to: *mut usize, bytes: usize, _flags: u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { super::memory::alloc(to, bytes) }
}

unsafe fn pitched(
    to: *mut usize,
    pitch: *mut usize,
    width: usize,
    height: usize,
    _element: u32,
) -> u32 {
    let row = width.next_multiple_of(512);
    // SAFETY: the caller's promise.
    unsafe {
        give(pitch, row);
        super::memory::alloc(to, row * height)
    }
}

/// Width, height, and format with channels: elements of 4 bytes.
unsafe fn array(to: *mut usize, of: *const [usize; 3]) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { make(to, (*of)[0] as u64 * (*of)[1].max(1) as u64 * 4) }
}

unsafe fn deep(to: *mut usize, of: *const [usize; 5]) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { mipmapped(to, of, 1) }
}

unsafe fn mipmapped(to: *mut usize, of: *const [usize; 5], levels: u32) -> u32 {
    // SAFETY: the caller's promise.
    let [width, height, depth, ..] = unsafe { *of };
    let level = |at: u32| [width, height, depth].map(|side| (side >> at).max(1) as u64);
    let bytes = (0..levels).map(|at| level(at).into_iter().product::<u64>() * 4).sum();
    // SAFETY: the caller's promise.
    unsafe { make(to, bytes) }
}

unsafe fn create(handle: *mut usize, bytes: usize, place: *const [u32; 4], _flags: u64) -> u32 {
    // SAFETY: the caller's promise. The third word is 1 for devices.
    let is_device = unsafe { (*place)[2] } == 1;
    if bytes == 0 || (is_device && !device_memory::take(bytes as u64)) {
        return if bytes == 0 { INVALID_VALUE } else { OUT_OF_MEMORY };
    }
    let mut world = world();
    let name = world.handle();
    let bytes = if is_device { bytes as u64 } else { 0 };
    world.pieces.insert(name, Piece { bytes, references: 1, mappings: 0 });
    // SAFETY: the caller's promise.
    unsafe { give(handle, name) };
    SUCCESS
}

/// Changes a piece, which ends when nobody has it any more.
fn change(handle: usize, change: impl FnOnce(&mut Piece)) -> u32 {
    let mut world = world();
    let Some(piece) = world.pieces.get_mut(&handle) else { return INVALID_VALUE };
    change(piece);
    let piece = *piece;
    if piece.references == 0 && piece.mappings == 0 {
        world.pieces.remove(&handle);
        give_back(piece.bytes);
    }
    SUCCESS
}

unsafe fn release(handle: usize) -> u32 {
    if world().pieces.get(&handle).is_none_or(|piece| piece.references == 0) {
        return INVALID_VALUE;
    }
    change(handle, |piece| piece.references -= 1)
}

unsafe fn retain(handle: *mut usize, at: usize) -> u32 {
    let found = world().mapped.get(&at).map(|(_, piece)| *piece);
    let Some(piece) = found else { return INVALID_VALUE };
    // SAFETY: the caller's promise.
    unsafe { give(handle, piece) };
    change(piece, |piece| piece.references += 1)
}

unsafe fn map(at: usize, bytes: usize, _offset: usize, handle: usize, _flags: u64) -> u32 {
    if world().pieces.get(&handle).is_none_or(|piece| piece.references == 0) {
        return INVALID_VALUE;
    }
    world().mapped.insert(at, (bytes, handle));
    change(handle, |piece| piece.mappings += 1)
}

unsafe fn unmap(at: usize, bytes: usize) -> u32 {
    let gone: Vec<_> =
        world().mapped.range(at..at + bytes).map(|(at, (_, piece))| (*at, *piece)).collect();
    for (at, piece) in &gone {
        world().mapped.remove(at);
        change(*piece, |piece| piece.mappings -= 1);
    }
    if gone.is_empty() { INVALID_VALUE } else { SUCCESS }
}

impl World {
    /// Gives memory back to its pool.
    pub(crate) fn leave_pool(&mut self, pool: usize, bytes: u64) {
        self.pools.entry(pool).or_default().used -= bytes;
    }
}

/// Takes memory from a pool, which grows if need be.
pub(crate) fn use_pool(pool: usize, bytes: u64) -> u32 {
    let mut world = world();
    let pool = world.pools.entry(pool).or_default();
    let more = (pool.used + bytes).saturating_sub(pool.reserved).next_multiple_of(POOL_UNIT);
    if more > 0 && !device_memory::take(more) {
        return OUT_OF_MEMORY;
    }
    pool.reserved += more;
    pool.used += bytes;
    SUCCESS
}

unsafe fn attribute(pool: usize, attribute: u32, value: *mut u64) -> u32 {
    let pool = world().pools.get(&pool).copied().unwrap_or_default();
    let found = match attribute {
        5 => pool.reserved,
        7 => pool.used,
        _ => return INVALID_VALUE,
    };
    // SAFETY: the caller's promise.
    unsafe { give(value, found) };
    SUCCESS
}

unsafe fn trim(pool: usize, keep: usize) -> u32 {
    let mut world = world();
    let pool = world.pools.entry(pool).or_default();
    let stays = pool.used.next_multiple_of(POOL_UNIT).max(keep as u64).min(pool.reserved);
    give_back(pool.reserved - stays);
    pool.reserved = stays;
    SUCCESS
}

unsafe fn create_pool(pool: *mut usize, _of: usize) -> u32 {
    let handle = world().handle();
    // SAFETY: the caller's promise.
    unsafe { give(pool, handle) };
    SUCCESS
}

/// Here nobody may have anything of it any more.
unsafe fn destroy_pool(pool: usize) -> u32 {
    let pool = world().pools.remove(&pool).unwrap_or_default();
    give_back(pool.reserved);
    SUCCESS
}

unsafe fn current_pool(pool: *mut usize, device: i32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { give(pool, own_pool(device as usize)) };
    SUCCESS
}

unsafe fn total(bytes: *mut usize, _device: i32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { give(bytes, capacity() as usize) };
    SUCCESS
}

unsafe fn info(free: *mut usize, total: *mut usize) -> u32 {
    let (now, _) = read();
    // SAFETY: the caller's promise.
    unsafe {
        give(free, (capacity() - now) as usize);
        give(total, capacity() as usize);
    }
    SUCCESS
}

/// What is taken of the device now, and the most that ever was, by all processes with the same file.
unsafe fn taken(now: *mut u64, peak: *mut u64) -> u32 {
    let (own, most) = read();
    // SAFETY: the caller's promise.
    unsafe {
        give(now, own);
        give(peak, most);
    }
    SUCCESS
}
