//! Memory of other processes, by handles of 64 bytes.

use crate::api::export::{give, plain};
use crate::api::memory::host_alloc;
use crate::engine::device_memory::{keep, own_place};
use crate::engine::world::world;
use reef_cuda_abi::codes::*;

plain! {
    cuIpcGetMemHandle(handle: *mut Handle, at: usize) = get;
    cuIpcOpenMemHandle(to: *mut usize, handle: Handle, flags: u32) = open;
    cuIpcOpenMemHandle_v2(to: *mut usize, handle: Handle, flags: u32) = open;
    cuIpcCloseMemHandle(at: usize) = close;
}

/// `CUipcMemHandle`: the process, the address there, its place among those that share the device,
/// and bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Handle([usize; 8]);

/// The handle of the allocation that has an address.
unsafe fn get(handle: *mut Handle, at: usize) -> u32 {
    let world = world();
    let range = world.range(at);
    let found = range.and_then(|(from, _)| Some((from, *world.taken.get(&from)?)));
    let Some((from, bytes)) = found else { return INVALID_VALUE };
    let words = [std::process::id() as usize, from, own_place(), bytes as usize, 0, 0, 0, 0];
    // SAFETY: cuIpcGetMemHandle demands that `handle` may be written; null is left out.
    unsafe { give(handle, Handle(words)) };
    SUCCESS
}

/// Memory of another process, which stays after the end of that. It is opened once, and counted.
unsafe fn open(to: *mut usize, handle: Handle, _flags: u32) -> u32 {
    let Handle([process, from, owner, bytes, ..]) = handle;
    if process == std::process::id() as usize {
        return INVALID_CONTEXT;
    }
    let mut own = open_again([process, from]).unwrap_or(0);
    if own == 0 {
        // SAFETY: a place of ours.
        match unsafe { host_alloc(&raw mut own, bytes, 0) } {
            SUCCESS => {}
            code => return code,
        }
        keep(owner, bytes as u64);
        let mut world = world();
        world.foreign.insert(own, (owner, bytes as u64));
        world.opened.insert(own, ([process, from], 1));
    }
    // SAFETY: cuIpcOpenMemHandle demands that `to` may be written; null is left out.
    unsafe { give(to, own) };
    SUCCESS
}

/// The address of memory that is open already.
fn open_again(from: [usize; 2]) -> Option<usize> {
    let mut world = world();
    let (own, (_, count)) = world.opened.iter_mut().find(|(_, (of, _))| *of == from)?;
    *count += 1;
    Some(*own)
}

unsafe fn close(at: usize) -> u32 {
    let mut world = world();
    let Some((_, count)) = world.opened.get_mut(&at) else { return INVALID_VALUE };
    *count -= 1;
    if *count == 0 {
        world.opened.remove(&at);
        world.free(at);
    }
    SUCCESS
}
