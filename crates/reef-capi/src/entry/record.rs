//! Structures that begin with their size.
//!
//! A program says by it which version of a structure it has. What it doesn't have is 0, which means
//! the default; what it has and the library doesn't know must be 0.

use crate::entry::args::place;
use crate::fault::{Fault, Result};
use crate::status::REEF_UNSUPPORTED;
use std::ptr;

/// A structure of `reef.h`.
///
/// # Safety
///
/// It is `repr(C)`, begins with a `u32`, and any bytes are one.
pub(crate) unsafe trait Record: Copy {
    /// Name in C.
    const NAME: &'static str;
    /// Bytes that its first version had.
    const MIN_SIZE: usize;
    /// One of zeros.
    const ZERO: Self;
}

/// No structure of a later version is larger.
const MAX_SIZE: usize = 4096;

/// Reads the record at `from`; all defaults if it is null.
///
/// # Safety
///
/// `from` is null, or its first 4 bytes are a size, and that number of bytes can be read there.
pub(crate) unsafe fn read<T: Record>(from: *const T) -> Result<T> {
    let mut value = T::ZERO;
    if from.is_null() {
        return Ok(value);
    }
    // SAFETY: `from` is not null, so its first 4 bytes can be read: `read` demands it.
    let size = unsafe { size::<T>(from.cast()) }?;
    let known = size.min(size_of::<T>());
    for at in known..size {
        // SAFETY: `at` is less than `size`, and that number of bytes can be read: `read` demands
        // it.
        if unsafe { from.cast::<u8>().add(at).read() } != 0 {
            let text = format!("{}: byte {at} is set, which this version doesn't know", T::NAME);
            return Err(Fault::new(REEF_UNSUPPORTED, text));
        }
    }
    // SAFETY: both have `known` bytes, and any bytes are a value.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut value).cast(), known) };
    Ok(value)
}

/// Puts as much of `value` to `to` as fits there, without the size.
///
/// # Safety
///
/// `to` is null, or its first 4 bytes are a size, and that number of bytes can be written there.
pub(crate) unsafe fn write<T: Record>(value: T, to: *mut T) -> Result<()> {
    const HEAD: usize = size_of::<u32>();
    place(T::NAME, to)?;
    // SAFETY: `place` has refused null, so the first 4 bytes can be read: `write` demands it.
    let known = unsafe { size::<T>(to.cast()) }?.min(size_of::<T>());
    let from = (&raw const value).cast::<u8>();
    // SAFETY: both have `known` bytes, of which the first `HEAD` are skipped.
    unsafe { ptr::copy_nonoverlapping(from.add(HEAD), to.cast::<u8>().add(HEAD), known - HEAD) };
    Ok(())
}

/// Refuses a place that is kept for later versions and isn't 0.
pub(crate) fn unused(name: &str, reserved: u32) -> Result<()> {
    match reserved {
        0 => Ok(()),
        _ => Err(Fault::new(REEF_UNSUPPORTED, format!("{name}: reserved is {reserved}, not 0"))),
    }
}

/// # Safety
///
/// `at` can be read.
unsafe fn size<T: Record>(at: *const u32) -> Result<usize> {
    // SAFETY: 4 bytes at `at` can be read: `size` demands it. They need not be aligned.
    let size = unsafe { at.read_unaligned() } as usize;
    let (name, min, step) = (T::NAME, T::MIN_SIZE, align_of::<T>());
    if (min..=MAX_SIZE).contains(&size) && size.is_multiple_of(step) {
        return Ok(size);
    }
    let text =
        format!("{name}: struct_size must be from {min} to {MAX_SIZE} by {step}, got {size}");
    Err(Fault::invalid(text))
}
