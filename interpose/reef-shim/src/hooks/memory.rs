//! Allocations of memory, and their ends. Without limits each is a call of the real driver and one
//! read of a word.

use super::declare::{hooks, ptsz_variants, with_copy, write_through};
use crate::actions::memory::{self, allocate_array, allocate_linear, free, uncounted};
use crate::actions::memory_request::or_ask;
use crate::actions::pageable::{self, Location, prefetch_all};
use crate::actions::pools;
use crate::driver::calls::Stream;
use crate::driver::pause_gate::touch;
use crate::limit::charges::Kind;
use crate::limit::sizes::{Deep, Flat};
use crate::profile::memory::{allocated, allocated_rows, freed};
use crate::profile::timed::timed;
use crate::swap::allocations as swap;
use reef_guest::profile::Api;
use std::ffi::c_void;

/// Returns the bytes of an array; zero without a description, which the driver refuses.
fn flat(description: *const Flat) -> u64 {
    // SAFETY: null, or a copy of the program's `CUDA_ARRAY_DESCRIPTOR`.
    unsafe { description.as_ref() }.map_or(0, Flat::bytes)
}

fn deep(description: *const Deep, levels: u32) -> u64 {
    // SAFETY: null, or a copy of the program's `CUDA_ARRAY3D_DESCRIPTOR`.
    unsafe { description.as_ref() }.map_or(0, |description| description.bytes(levels))
}

/// Makes an allocation, and records it in a profile.
fn alloc(to: *const usize, bytes: usize, call: impl FnOnce() -> u32) -> u32 {
    timed(Api::Alloc, bytes as u64, 0, 0, || allocated(call(), to, bytes))
}

/// Makes an allocation of rows. The profile records the requested bytes for the call, and the
/// actual bytes as memory.
fn rows(
    to: *const usize,
    pitch: *const usize,
    [width, height]: [usize; 2],
    call: impl FnOnce() -> u32,
) -> u32 {
    let asked = width.saturating_mul(height) as u64;
    timed(Api::Alloc, asked, 0, 0, || allocated_rows(call(), to, pitch, height))
}

/// Makes an array by `real`, which takes the places of its handle and its description.
fn array<T: Copy>(
    kind: Kind,
    [to, of]: [usize; 2],
    bytes: impl FnOnce(*const T) -> u64,
    real: impl Fn(usize, usize) -> u32,
) -> u32 {
    write_through(to as *mut usize, |to| {
        with_copy(of as *const T, |of| {
            let bytes = bytes(of);
            allocate_array(kind, bytes, to, || or_ask(bytes, || real(to as usize, of as usize)))
        })
    })
}

/// Ends an allocation, and records that in a profile.
fn end(at: usize, stream: usize, call: impl FnOnce() -> u32) -> u32 {
    let _touch = touch(); // before anything of this library is entered, where nothing waits
    timed(Api::Free, 0, 0, stream, || freed(at, call))
}

hooks! {
    cuMemAlloc_v2(
        to: usize, bytes: usize,
    ) |real(to)| write_through(to as *mut usize, |to| alloc(to, bytes, || {
        let swappable = || swap::allocate(to, bytes, || real(to as usize));
        allocate_linear(bytes as u64, to, || or_ask(bytes as u64, swappable))
    }));
    cuMemAllocManaged(
        to: usize, bytes: usize, flags: u32,
    ) |real(to)| write_through(to as *mut usize, |to| alloc(to, bytes, || {
        allocate_linear(bytes as u64, to, || real(to as usize))
    }));
    cuMemAllocPitch_v2(
        to: usize, pitch: usize, width: usize, height: usize, element: u32,
    ) |real(to, pitch)| write_through(to as *mut usize, |to| {
        write_through(pitch as *mut usize, |pitch| rows(to, pitch, [width, height], || {
            let bytes = width.saturating_mul(height) as u64;
            let real = || real(to as usize, pitch as usize);
            memory::pitched(to, pitch, width, height, || or_ask(bytes, real))
        }))
    });
    cuMemFree_v2(at: usize) |real| end(at, 0, || free(Kind::Memory, at, || swap::free(at, real)));
    cuArrayCreate_v2(
        to: usize, of: usize,
    ) |real(to, of)| array(Kind::Array, [to, of], flat, real);
    cuArray3DCreate_v2(
        to: usize, of: usize,
    ) |real(to, of)| array(Kind::Array, [to, of], |of: *const Deep| deep(of, 1), real);
    cuArrayDestroy(array: usize) |real| free(Kind::Array, array, real);
    cuMipmappedArrayCreate(
        to: usize, of: usize, levels: u32,
    ) |real(to, of)| array(Kind::Mipmapped, [to, of], |of: *const Deep| deep(of, levels), real);
    cuMipmappedArrayDestroy(array: usize) |real| free(Kind::Mipmapped, array, real);
    cuMemGetAddressRange_v2(
        base: *mut usize, bytes: *mut usize, at: usize,
    ) |real| swap::range(base, bytes, at, real);
    cuMemGetInfo_v2(left: *mut usize, total: *mut usize) |real| memory::info(left, total, real);
    cuDeviceTotalMem_v2(bytes: *mut usize, device: i32) |real| memory::total(bytes, device, real);
}

hooks! {
    cuDeviceGetAttribute(
        value: *mut i32, which: u32, device: i32,
    ) |real| pageable::attribute(value, which, device, real);
    cuMemAdvise(
        at: usize, bytes: usize, advice: u32, device: i32,
    ) |real| pageable::advise(at, bytes, advice, Location::of_device(device), real);
    cuMemAdvise_v2(
        at: usize, bytes: usize, advice: u32, to: Location,
    ) |real| pageable::advise(at, bytes, advice, to, real);
}

ptsz_variants! {
    cuMemPrefetchAsync / cuMemPrefetchAsync_ptsz(
        at: usize, bytes: usize, device: i32, stream: usize,
    ) |_is_ptsz, real| pageable::prefetch(at, bytes, Location::of_device(device), real);
    cuMemPrefetchAsync_v2 / cuMemPrefetchAsync_v2_ptsz(
        at: usize, bytes: usize, to: Location, flags: u32, stream: usize,
    ) |_is_ptsz, real| pageable::prefetch(at, bytes, to, real);
    cuMemPrefetchBatchAsync / cuMemPrefetchBatchAsync_ptsz /
    cuMemDiscardAndPrefetchBatchAsync / cuMemDiscardAndPrefetchBatchAsync_ptsz(
        ranges: usize, sizes: usize, count: usize, locations: usize, which: usize, location_count: usize, flags: u64,
        stream: usize,
        // SAFETY: the driver demands `count` ranges and sizes, and `location_count` locations and
        // numbers, of the program.
    ) |_is_ptsz, real(ranges, sizes, locations, which)| unsafe {
        prefetch_all([ranges, sizes, locations, which], count, location_count, |lists| {
            let [ranges, sizes, locations, which] = lists;
            real(ranges, sizes, locations, which)
        })
    };
}

// Functions from before addresses had 64 bits.
hooks! {
    cuMemGetInfo(left: *mut u32, total: *mut u32) |real| memory::info(left, total, real);
    cuDeviceTotalMem(bytes: *mut u32, device: i32) |real| memory::total(bytes, device, real);
    cuMemAlloc(to: *mut u32, bytes: u32) |real| uncounted(real);
    cuMemAllocPitch(
        to: *mut u32, pitch: *mut u32, width: u32, height: u32, element: u32,
    ) |real| uncounted(real);
    cuArrayCreate(to: *mut usize, of: *const c_void) |real| uncounted(real);
    cuArray3DCreate(to: *mut usize, of: *const c_void) |real| uncounted(real);
}

ptsz_variants! {
    cuMemAllocAsync / cuMemAllocAsync_ptsz(
        to: usize, bytes: usize, stream: usize,
    ) |is_ptsz, real(to)| write_through(to as *mut usize, |to| alloc(to, bytes, || {
        let real = || real(to as usize);
        pools::allocate(to, bytes, None, Stream::new(stream, is_ptsz), || or_ask(bytes as u64, real))
    }));
    cuMemFreeAsync / cuMemFreeAsync_ptsz(
        at: usize, stream: usize,
    ) |is_ptsz, real| end(at, stream, || {
        memory::free_in(Stream::new(stream, is_ptsz), at, || swap::free(at, real))
    });
    cuMemAllocFromPoolAsync / cuMemAllocFromPoolAsync_ptsz(
        to: usize, bytes: usize, pool: usize, stream: usize,
    ) |is_ptsz, real(to)| write_through(to as *mut usize, |to| alloc(to, bytes, || {
        let real = || real(to as usize);
        pools::allocate(to, bytes, Some(pool), Stream::new(stream, is_ptsz), || {
            or_ask(bytes as u64, real)
        })
    }));
}
