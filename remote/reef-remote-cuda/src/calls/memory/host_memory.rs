//! Host memory: the program's own.

use crate::calls::export::{give, plain};
use crate::refused::refuse;
use crate::session::session;
use crate::state::host_memory::HostMemory;
use reef_cuda_abi::codes::*;

plain! {
    cuMemHostAlloc(to: *mut usize, bytes: usize, flags: u32) = alloc;
    cuMemAllocHost_v2(to: *mut usize, bytes: usize) = alloc_plain;
    cuMemFreeHost(at: usize) = free;
    cuMemHostRegister_v2(at: usize, bytes: usize, flags: u32) = register;
    cuMemHostUnregister(at: usize) = unregister;
    cuMemHostGetFlags(flags: *mut u32, at: usize) = flags_of;
    cuMemHostGetDevicePointer_v2(to: *mut u64, at: usize, flags: u32) = device_pointer;
}

unsafe fn alloc(to: *mut usize, bytes: usize, flags: u32) -> Result<(), u32> {
    session()?;
    if bytes == 0 || to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and cuMemHostAlloc demands that `to` may be written.
    unsafe { give(to, HostMemory::alloc(bytes, flags).ok_or(OUT_OF_MEMORY)?) }
}

unsafe fn alloc_plain(to: *mut usize, bytes: usize) -> Result<(), u32> {
    // SAFETY: cuMemAllocHost demands that `to` is null or may be written, as `alloc` does.
    unsafe { alloc(to, bytes, 0) }
}

fn free(at: usize) -> Result<(), u32> {
    session()?;
    // Nothing that is under way uses it: copies take its bytes at the call, or end in it.
    if HostMemory::free(at) { Ok(()) } else { Err(INVALID_VALUE) }
}

fn register(at: usize, bytes: usize, flags: u32) -> Result<(), u32> {
    session()?;
    if at == 0 || bytes == 0 {
        return Err(INVALID_VALUE);
    }
    if HostMemory::register(at, bytes, flags) { Ok(()) } else { Err(ALREADY_REGISTERED) }
}

fn unregister(at: usize) -> Result<(), u32> {
    session()?;
    if HostMemory::unregister(at) { Ok(()) } else { Err(NOT_REGISTERED) }
}

unsafe fn flags_of(flags: *mut u32, at: usize) -> Result<(), u32> {
    session()?;
    // SAFETY: cuMemHostGetFlags demands that `flags` may be written; `give` refuses null.
    unsafe { give(flags, HostMemory::flags(at).ok_or(INVALID_VALUE)?) }
}

/// Kernels elsewhere can't read this machine's memory.
fn device_pointer(_to: *mut u64, _at: usize, _flags: u32) -> Result<(), u32> {
    session()?;
    Err(refuse(c"host memory that kernels use"))
}
