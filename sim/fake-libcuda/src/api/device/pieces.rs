//! Memory by handles: mapped to addresses, into sparse arrays and multicast objects, exported and
//! imported.

use super::addresses;
use crate::api::export::{give, plain, ptsz};
use crate::api::streams::wait_for_all;
use crate::engine::device_memory::{self, Piece};
use crate::engine::exports::Export;
use crate::engine::world::world;
use reef_cuda_abi::codes::*;
use reef_cuda_abi::layouts::ArrayMapInfo;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::os::unix::fs::FileExt;

plain! {
    cuMemCreate(handle: *mut usize, bytes: usize, place: *const [u32; 4], flags: u64) = create;
    cuMemRelease(handle: usize) = release;
    cuMemRetainAllocationHandle(handle: *mut usize, at: usize) = retain;
    cuMemMap(at: usize, bytes: usize, offset: usize, handle: usize, flags: u64) = map;
    cuMemUnmap(at: usize, bytes: usize) = unmap;
    cuMemExportToShareableHandle(to: *mut i32, handle: usize, kind: u32, flags: u64) = export;
    cuMemGetAllocationPropertiesFromHandle(place: *mut [u32; 8], handle: usize) = properties;
    cuMemImportFromShareableHandle(handle: *mut usize, from: usize, kind: u32) = import;
    cuMulticastCreate(handle: *mut usize, of: *const u64) = multicast;
    cuMulticastBindMem(to: usize, at: usize, handle: usize, from: usize, bytes: usize, flags: u64) = bind;
    cuMulticastBindAddr(to: usize, at: usize, from: usize, bytes: usize, flags: u64) = bind_address;
    cuMulticastUnbind(to: usize, device: i32, at: usize, bytes: usize) = unbind;
}

ptsz! {
    cuMemMapArrayAsync / cuMemMapArrayAsync_ptsz(list: *const ArrayMapInfo, count: u32, stream: usize) = map_arrays;
}

unsafe fn create(handle: *mut usize, bytes: usize, place: *const [u32; 4], _flags: u64) -> u32 {
    world().end_closed_exports();
    // SAFETY: cuMemCreate demands a `CUmemAllocationProp`, which begins with four words of 32 bits.
    // The third is 1 for devices.
    let is_device = unsafe { (*place)[2] } == 1;
    if bytes == 0 || (is_device && !device_memory::take(bytes as u64)) {
        return if bytes == 0 { INVALID_VALUE } else { OUT_OF_MEMORY };
    }
    let bytes = if is_device { bytes as u64 } else { 0 };
    // SAFETY: cuMemCreate demands that `handle` may be written; null is left out.
    unsafe { give(handle, make(bytes, None)) };
    SUCCESS
}

fn make(bytes: u64, owner: Option<usize>) -> usize {
    let mut world = world();
    let name = world.handle();
    let piece = Piece { bytes, references: 1, mappings: 0, exports: 0, owner };
    world.pieces.insert(name, piece);
    name
}

fn change(handle: usize, change: fn(&mut Piece)) -> u32 {
    if world().change_piece(handle, change) { SUCCESS } else { INVALID_VALUE }
}

fn has(handle: usize) -> bool {
    world().pieces.get(&handle).is_some_and(|piece| piece.references > 0)
}

unsafe fn release(handle: usize) -> u32 {
    if !has(handle) {
        return INVALID_VALUE;
    }
    change(handle, |piece| piece.references -= 1)
}

unsafe fn retain(handle: *mut usize, at: usize) -> u32 {
    let found = world().mapped.get(&at).map(|(_, piece)| *piece);
    let Some(piece) = found else { return INVALID_VALUE };
    // SAFETY: cuMemRetainAllocationHandle demands that `handle` may be written; null is left out.
    unsafe { give(handle, piece) };
    change(piece, |piece| piece.references += 1)
}

unsafe fn map(at: usize, bytes: usize, _offset: usize, handle: usize, _flags: u64) -> u32 {
    if !has(handle) {
        return INVALID_VALUE;
    }
    if let Err(code) = addresses::map(at, bytes, handle) {
        return code;
    }
    let mut world = world();
    if world.mapped.contains_key(&at) {
        return INVALID_VALUE;
    }
    world.mapped.insert(at, (bytes, handle));
    drop(world);
    change(handle, |piece| piece.mappings += 1)
}

/// Another thread may map something there before this returns.
unsafe fn unmap(at: usize, bytes: usize) -> u32 {
    let mut world = world();
    let its = world.mapped.range(at..at.saturating_add(bytes));
    let gone: Vec<_> = its.map(|(at, (_, piece))| (*at, *piece)).collect();
    for (at, _) in &gone {
        world.mapped.remove(at);
    }
    drop(world);
    for (at, piece) in &gone {
        addresses::unmap(*at, bytes);
        change(*piece, |piece| piece.mappings -= 1);
    }
    if gone.is_empty() { INVALID_VALUE } else { SUCCESS }
}

/// A file that names the piece, and keeps it as long as it is open somewhere.
unsafe fn export(to: *mut i32, handle: usize, _kind: u32, _flags: u64) -> u32 {
    if !has(handle) {
        return INVALID_VALUE;
    }
    let Some((export, file)) = Export::new() else { return OUT_OF_MEMORY };
    let bytes = world().pieces.get(&handle).map_or(0, |piece| piece.bytes);
    let process = u64::from(std::process::id());
    let words = [handle as u64, process, device_memory::own_place() as u64, bytes];
    if file.write_all_at(&words.map(u64::to_le_bytes).concat(), 0).is_err() {
        return INVALID_VALUE;
    }
    world().exported_pieces.push((export, handle));
    // SAFETY: cuMemExportToShareableHandle demands that `to` may be written, an `int` for a file;
    // null is left out.
    unsafe { give(to, file.into_raw_fd()) };
    change(handle, |piece| piece.exports += 1)
}

/// Memory on the device, by its handle. Objects have none.
unsafe fn properties(place: *mut [u32; 8], handle: usize) -> u32 {
    if !has(handle) || world().pieces.get(&handle).is_none_or(|piece| piece.bytes == 0) {
        return INVALID_VALUE;
    }
    // SAFETY: cuMemGetAllocationPropertiesFromHandle demands a `CUmemAllocationProp` of 32 bytes,
    // which may be written; null is left out.
    unsafe { give(place, [1, 1, 1, 0, 0, 0, 0, 0]) };
    SUCCESS
}

/// Memory of another process stays after the end of that.
unsafe fn import(handle: *mut usize, from: usize, _kind: u32) -> u32 {
    let mut words = [[0; 8]; 4];
    // SAFETY: cuMemImportFromShareableHandle demands an open file, which stays the program's: this
    // value is never dropped.
    let file = std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(from as i32) });
    if file.read_exact_at(words.as_flattened_mut(), 0).is_err() {
        return INVALID_VALUE;
    }
    let [name, process, owner, bytes] = words.map(u64::from_le_bytes);
    if process != u64::from(std::process::id()) {
        device_memory::keep(owner as usize, bytes);
        // SAFETY: cuMemImportFromShareableHandle demands that `handle` may be written; null is left
        // out.
        unsafe { give(handle, make(bytes, Some(owner as usize))) };
        return SUCCESS;
    }
    let name = name as usize;
    // SAFETY: cuMemImportFromShareableHandle demands that `handle` may be written; null is left
    // out.
    unsafe { give(handle, name) };
    change(name, |piece| piece.references += 1)
}

/// An object without memory of its own.
unsafe fn multicast(handle: *mut usize, _of: *const u64) -> u32 {
    // SAFETY: cuMulticastCreate demands that `handle` may be written; null is left out. The
    // properties are not read.
    unsafe { give(handle, make(0, None)) };
    SUCCESS
}

unsafe fn bind(
    to: usize,
    at: usize,
    handle: usize,
    _from: usize,
    bytes: usize,
    _flags: u64,
) -> u32 {
    if !has(handle) {
        return INVALID_VALUE;
    }
    let (from, end) = (at as u64, at.saturating_add(bytes) as u64);
    let overlaps = |&(of, [begin, length, ..], _): &(usize, [u64; 4], usize)| {
        of == to && begin < end && from < begin.saturating_add(length)
    };
    let mut world = world();
    if world.inside.iter().any(overlaps) {
        return INVALID_VALUE;
    }
    world.inside.push((to, [from, bytes as u64, 0, 0], handle));
    drop(world);
    change(handle, |piece| piece.mappings += 1)
}

unsafe fn bind_address(to: usize, at: usize, from: usize, bytes: usize, flags: u64) -> u32 {
    let mut handle = 0;
    // SAFETY: a place of ours.
    if unsafe { retain(&raw mut handle, from) } != SUCCESS {
        return INVALID_VALUE;
    }
    // SAFETY: the handle of a moment ago.
    unsafe {
        let code = bind(to, at, handle, 0, bytes, flags);
        release(handle);
        code
    }
}

/// Waits for the device. Another thread may bind something there meanwhile.
unsafe fn unbind(to: usize, _device: i32, at: usize, bytes: usize) -> u32 {
    leave(to, &|place| (at as u64..at.saturating_add(bytes) as u64).contains(&place[0]));
    wait_for_all(None)
}

/// Takes pieces out of an array or an object.
pub(super) fn leave(from: usize, is_meant: &dyn Fn(&[u64; 4]) -> bool) {
    world().take_out(from, is_meant);
}

unsafe fn map_arrays(_is_ptsz: bool, list: *const ArrayMapInfo, count: u32, _stream: usize) -> u32 {
    for at in 0..count as usize {
        // SAFETY: cuMemMapArrayAsync demands a list of `count` regions, and `at` is lower.
        let ArrayMapInfo { array, region, operation, handle, .. } = unsafe { &*list.add(at) };
        leave(*array, &|place| place == region);
        if *operation == 1 {
            let handle = *handle as usize;
            if !has(handle) {
                return INVALID_VALUE;
            }
            world().inside.push((*array, *region, handle));
            change(handle, |piece| piece.mappings += 1);
        }
    }
    SUCCESS
}
