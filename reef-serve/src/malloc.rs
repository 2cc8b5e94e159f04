//! How the process's heap gives memory back to the system.
//!
//! By its own rules glibc keeps tensors of up to 32 MiB in one heap, and shrinks that in one call
//! when a network has been dropped: 0.15 s for a GiB (2 cores, 2026-11-22), in which whoever else
//! allocates waits for the heap's lock.

#![allow(unsafe_code)] // two numbers for the allocator

/// Allocations from this size on are mapped each by itself, and unmapped.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED: std::ffi::c_int = 1 << 20;
/// The heap shrinks when so much is free at its end.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const FREE_AT_END: std::ffi::c_int = 64 << 20;

/// From now on large pieces of memory are given back one by one, and no other thread waits long for
/// one of them. Where the allocator isn't glibc's, nothing is changed.
pub(crate) fn give_back_in_pieces() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: both are parameters of mallopt(3) with values in their ranges. It takes the heap's
    // lock; who allocates beside it finds the old value of a number or the new one, and works with
    // either.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED);
        libc::mallopt(libc::M_TRIM_THRESHOLD, FREE_AT_END);
    }
}
