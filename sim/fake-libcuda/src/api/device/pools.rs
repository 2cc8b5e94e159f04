//! Pools, and what the driver says of the memory of graphs.

use crate::api::context::number_of;
use crate::api::export::{give, plain};
use crate::api::memory::host_alloc;
use crate::engine::device_memory;
use crate::engine::exports::Export;
use crate::engine::pool::own_pool;
use crate::engine::world::world;
use reef_cuda_abi::codes::*;
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::os::unix::fs::FileExt;

plain! {
    cuMemPoolGetAttribute(pool: usize, attribute: u32, value: *mut u64) = attribute;
    cuMemPoolSetAttribute(pool: usize, attribute: u32, value: *const u64) = set_attribute;
    cuMemPoolTrimTo(pool: usize, keep: usize) = trim;
    cuMemPoolCreate(pool: *mut usize, of: *const [u32; 4]) = create;
    cuMemPoolDestroy(pool: usize) = destroy;
    cuMemPoolExportToShareableHandle(to: *mut i32, pool: usize, kind: u32, flags: u64) = export;
    cuMemPoolImportFromShareableHandle(pool: *mut usize, from: usize, kind: u32, flags: u64) = import;
    cuMemPoolExportPointer(data: *mut [usize; 8], at: usize) = export_pointer;
    cuMemPoolImportPointer(at: *mut usize, pool: usize, data: *const [usize; 8]) = import_pointer;
    cuDeviceGetMemPool(pool: *mut usize, device: i32) = current;
    cuDeviceGetDefaultMemPool(pool: *mut usize, device: i32) = current;
    cuDeviceGetGraphMemAttribute(device: i32, attribute: u32, value: *mut u64) = of_graphs;
    cuDeviceGraphMemTrim(device: i32) = trim_graphs;
}

unsafe fn attribute(pool: usize, attribute: u32, value: *mut u64) -> u32 {
    let mut world = world();
    let imported = world.pools.get(&pool).and_then(|pool| pool.imported);
    let pool = world.pools.entry(imported.unwrap_or(pool)).or_default();
    let found = match attribute {
        _ if pool.is_destroyed => return INVALID_VALUE,
        2 => {
            // SAFETY: cuMemPoolGetAttribute demands an `int` at `value` for this attribute; null is
            // left out.
            unsafe { give(value.cast::<u32>(), u32::from(!pool.keeps_apart)) };
            return SUCCESS;
        }
        4 => pool.threshold,
        5 => pool.reserved(),
        7 => pool.used,
        _ => return INVALID_VALUE,
    };
    // SAFETY: cuMemPoolGetAttribute demands a word at `value` for these attributes; null is left
    // out.
    unsafe { give(value, found) };
    SUCCESS
}

unsafe fn set_attribute(pool: usize, attribute: u32, value: *const u64) -> u32 {
    let mut world = world();
    if attribute == 2 {
        // SAFETY: cuMemPoolSetAttribute demands an `int` at `value` for this attribute.
        let allows = unsafe { *value.cast::<u32>() };
        world.pools.entry(pool).or_default().keeps_apart = allows == 0;
        return SUCCESS;
    }
    if attribute != 4 {
        return INVALID_VALUE;
    }
    // SAFETY: cuMemPoolSetAttribute demands a word at `value` for the threshold.
    world.pools.entry(pool).or_default().threshold = unsafe { *value };
    SUCCESS
}

unsafe fn trim(pool: usize, keep: usize) -> u32 {
    world().trim_pool(pool, keep as u64);
    SUCCESS
}

unsafe fn create(pool: *mut usize, of: *const [u32; 4]) -> u32 {
    // SAFETY: null, or a `CUmemPoolProps`, which cuMemPoolCreate demands and which begins with four
    // words of 32 bits. The first is 2 for managed memory, the third 1 for devices.
    let of = unsafe { of.as_ref() };
    let mut world = world();
    let handle = world.handle();
    let made = world.pools.entry(handle).or_default();
    made.is_host = of.is_some_and(|of| of[2] != 1);
    made.is_managed = of.is_some_and(|of| of[0] == 2);
    // SAFETY: cuMemPoolCreate demands that `pool` may be written; null is left out.
    unsafe { give(pool, handle) };
    SUCCESS
}

unsafe fn destroy(pool: usize) -> u32 {
    world().destroy_pool(pool);
    SUCCESS
}

/// A file that names the pool. It keeps no memory.
unsafe fn export(to: *mut i32, pool: usize, _kind: u32, _flags: u64) -> u32 {
    let world = world();
    if world.pools.get(&pool).is_none_or(|of| of.is_destroyed || of.imported.is_some()) {
        return INVALID_VALUE;
    }
    let Some((_, file)) = Export::new() else { return OUT_OF_MEMORY };
    if file.write_all_at(&pool.to_le_bytes(), 0).is_err() {
        return INVALID_VALUE;
    }
    // SAFETY: cuMemPoolExportToShareableHandle demands that `to` may be written, an `int` for a
    // file; null is left out.
    unsafe { give(to, file.into_raw_fd()) };
    SUCCESS
}

/// A handle for the pool that a file names, from which nothing can be allocated.
unsafe fn import(pool: *mut usize, from: usize, _kind: u32, _flags: u64) -> u32 {
    let mut name = [0; 8];
    // SAFETY: cuMemPoolImportFromShareableHandle demands an open file, which stays the program's:
    // this value is never dropped.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(from as i32) });
    if file.read_exact_at(&mut name, 0).is_err() {
        return INVALID_VALUE;
    }
    let mut world = world();
    let handle = world.handle();
    world.pools.entry(handle).or_default().imported = Some(usize::from_le_bytes(name));
    // SAFETY: cuMemPoolImportFromShareableHandle demands that `pool` may be written; null is left
    // out.
    unsafe { give(pool, handle) };
    SUCCESS
}

/// The name of an allocation from a pool.
unsafe fn export_pointer(data: *mut [usize; 8], at: usize) -> u32 {
    let world = world();
    let Some((pool, bytes)) = world.pooled.get(&at) else { return INVALID_VALUE };
    // SAFETY: cuMemPoolExportPointer demands a `CUmemPoolPtrExportData` of 64 bytes; null is left
    // out.
    unsafe {
        let process = std::process::id() as usize;
        let owner = device_memory::own_place();
        give(data, [at, *pool, *bytes as usize, process, owner, 0, 0, 0]);
    }
    SUCCESS
}

/// The address of an exported allocation, whose memory stays from now on; after the end of its
/// process, too.
unsafe fn import_pointer(to: *mut usize, pool: usize, data: *const [usize; 8]) -> u32 {
    // SAFETY: cuMemPoolImportPointer demands a `CUmemPoolPtrExportData` of 64 bytes.
    let [at, of, bytes, process, owner, ..] = unsafe { *data };
    let mut world = world();
    if world.pools.get(&pool).is_none_or(|pool| pool.imported != Some(of)) {
        return INVALID_VALUE;
    }
    if process != std::process::id() as usize {
        drop(world);
        let mut own = 0;
        // SAFETY: a place of ours.
        match unsafe { host_alloc(&raw mut own, bytes, 0) } {
            SUCCESS => {}
            code => return code,
        }
        device_memory::keep(owner, bytes as u64);
        crate::engine::world::world().foreign.insert(own, (owner, bytes as u64));
        // SAFETY: cuMemPoolImportPointer demands that `to` may be written; null is left out.
        unsafe { give(to, own) };
        return SUCCESS;
    }
    world.pools.entry(of).or_default().held.push(at..at + bytes);
    // SAFETY: cuMemPoolImportPointer demands that `to` may be written; null is left out.
    unsafe { give(to, at) };
    SUCCESS
}

unsafe fn current(pool: *mut usize, device: i32) -> u32 {
    let device = match number_of(device) {
        Ok(device) => device,
        Err(code) => return code,
    };
    // SAFETY: cuDeviceGetMemPool demands that `pool` may be written; null is left out.
    unsafe { give(pool, own_pool(device)) };
    SUCCESS
}

unsafe fn of_graphs(device: i32, attribute: u32, value: *mut u64) -> u32 {
    if let Err(code) = number_of(device) {
        return code;
    }
    let (reserved, used) = world().graph_memory.reserved();
    let found = match attribute {
        0 => used,
        2 => reserved,
        _ => return INVALID_VALUE,
    };
    // SAFETY: cuDeviceGetGraphMemAttribute demands a word at `value`; null is left out.
    unsafe { give(value, found) };
    SUCCESS
}

unsafe fn trim_graphs(device: i32) -> u32 {
    if let Err(code) = number_of(device) {
        return code;
    }
    world().trim_graphs();
    SUCCESS
}
