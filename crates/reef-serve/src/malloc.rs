//! Settings of the allocator, for memory to return to the system in small steps.
//!
//! By default glibc keeps tensors of up to 32 MiB in one heap. It shrinks that heap in one call
//! when a network has been dropped: 0.15 s for a GiB (2 cores, 2026-11-22). Every other thread that
//! allocates meanwhile waits for the heap's lock.

#![allow(unsafe_code)] // two numbers for the allocator

/// Allocations of at least this size are mapped and unmapped separately.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MMAP_BYTES: std::ffi::c_int = 1 << 20;
/// The heap shrinks once this much is free at its end.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const TRIM_BYTES: std::ffi::c_int = 64 << 20;

/// Lets large allocations return to the system one by one, so that no other thread waits long for
/// the heap's lock. Does nothing if the allocator is not glibc's.
pub(crate) fn limit_heap_growth() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: both are parameters of mallopt(3) with values in their ranges. It takes the heap's
    // lock; a thread that allocates meanwhile uses the old value or the new one, and either is
    // valid.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_BYTES);
    }
}
