//! Facts that the driver knows of an address.

use crate::calls::export::{forward_ptsz, give, plain};
use crate::codes::*;
use crate::driver::Driver;
use crate::state::context::enter;
use crate::types::{Location, Stream};
use std::ffi::c_void;

plain! {
    cudaPointerGetAttributes(attributes: *mut PointerAttributes, at: u64) = attributes_of;
    cudaMemAdvise(at: u64, bytes: usize, advice: u32, device: i32) = advise;
    cudaMemAdvise_v2(at: u64, bytes: usize, advice: u32, to: Location) = advise_v2;
}

forward_ptsz! {
    cudaMemPrefetchAsync / cudaMemPrefetchAsync_ptsz(at: u64, bytes: usize, device: i32, stream: Stream)
        => cuMemPrefetchAsync(at, bytes, device, stream);
    cudaMemPrefetchAsync_v2 / cudaMemPrefetchAsync_v2_ptsz(
        at: u64, bytes: usize, to: Location, flags: u32, stream: Stream
    ) => cuMemPrefetchAsync_v2(at, bytes, to, flags, stream);
}

/// `cudaPointerAttributes`, as far as both releases have it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PointerAttributes {
    kind: u32,
    device: i32,
    on_device: u64,
    on_host: u64,
}

// As the headers of both releases begin it (tests/programs/layouts.c).
const _: () = assert!(size_of::<PointerAttributes>() == 24);

/// Kinds of memory: `CUmemorytype` for the first three, and `cudaMemoryType`.
const UNREGISTERED: u32 = 0;
pub(super) const HOST: u32 = 1;
const DEVICE: u32 = 2;
const MANAGED: u32 = 3;

fn ask<T: Default>(driver: &Driver, attribute: u32, at: u64) -> Result<T, u32> {
    let mut value = T::default();
    let place: *mut c_void = (&raw mut value).cast();
    // SAFETY: `value` is a local of the attribute's size: each call of this function has `T` as
    // cuda.h has the attribute. The driver checks the address.
    unsafe { driver.cuPointerGetAttribute(place, attribute, at) }?;
    Ok(value)
}

/// Returns the kind of memory at an address. What the driver doesn't know is the host's.
///
/// # Errors
///
/// The driver's code, other than for an unknown address.
pub(super) fn kind(driver: &Driver, at: u64) -> Result<u32, u32> {
    match ask(driver, 2, at) {
        Err(INVALID_VALUE) => Ok(HOST),
        found => found,
    }
}

unsafe fn attributes_of(attributes: *mut PointerAttributes, at: u64) -> Result<(), u32> {
    let driver = enter()?;
    let kind: u32 = match ask(driver, 2, at) {
        Ok(kind) => kind,
        Err(INVALID_VALUE) => {
            let none =
                PointerAttributes { kind: UNREGISTERED, device: -2, on_device: 0, on_host: at };
            // SAFETY: cudaPointerGetAttributes demands that `attributes` may be written; `give`
            // refuses null.
            return unsafe { give(attributes, none) };
        }
        Err(code) => return Err(code),
    };
    let is_managed = ask::<u32>(driver, 8, at).is_ok_and(|managed| managed != 0);
    let kind = if is_managed { MANAGED } else { kind };
    let found = PointerAttributes {
        kind,
        device: ask(driver, 9, at).unwrap_or(0),
        on_device: ask(driver, 3, at).unwrap_or(if kind == DEVICE { at } else { 0 }),
        on_host: ask(driver, 4, at).unwrap_or(0),
    };
    // SAFETY: cudaPointerGetAttributes demands that `attributes` may be written; `give` refuses
    // null.
    unsafe { give(attributes, found) }
}

fn advise(at: u64, bytes: usize, advice: u32, device: i32) -> Result<(), u32> {
    // SAFETY: numbers.
    unsafe { enter()?.cuMemAdvise(at, bytes, advice, device) }
}

fn advise_v2(at: u64, bytes: usize, advice: u32, to: Location) -> Result<(), u32> {
    // SAFETY: numbers.
    unsafe { enter()?.cuMemAdvise_v2(at, bytes, advice, to) }
}
