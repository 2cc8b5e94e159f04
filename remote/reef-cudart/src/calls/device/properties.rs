//! `cudaGetDeviceProperties` of both releases, filled from attributes.
//!
//! `properties.txt` has a line for each field: name, width, offset in the structure of CUDA 12 and
//! in that of 13 (`-`: not there), and attributes as `CUdevice_attribute` numbers them.

use crate::calls::export::plain;
use crate::codes::*;
use crate::driver::{Driver, driver};
use crate::state::context::check_device;

plain! {
    cudaGetDeviceProperties_v2(to: *mut u8, device: i32) = properties_12;
    cudaGetDeviceProperties_v13(to: *mut u8, device: i32) = properties_13;
}

const FIELDS: &str = include_str!("../../../properties.txt");
/// Bytes of the structure.
const LEN_12: usize = 1032;
const LEN_13: usize = 1008;
/// Offsets that both have.
const NAME: std::ops::Range<usize> = 0..256;
const UUID: std::ops::Range<usize> = 256..272;
const MEMORY: usize = 288;

/// A field with one number or several.
struct Field<'a> {
    is_long: bool,
    offset: usize,
    attributes: std::str::SplitWhitespace<'a>,
}

impl<'a> Field<'a> {
    /// Reads a line, for CUDA 12 or for 13. `None`: that one does not have it.
    fn read(line: &'a str, is_13: bool) -> Option<Self> {
        let mut words = line.split_whitespace();
        words.next()?; // its name
        let is_long = words.next()? == "long";
        let offsets = [words.next()?, words.next()?];
        let offset = offsets[usize::from(is_13)].parse().ok()?;
        Some(Self { is_long, offset, attributes: words })
    }

    fn fill(self, bytes: &mut [u8], attribute: impl Fn(u32) -> i32) {
        let mut at = self.offset;
        for value in self.attributes.filter_map(|number| number.parse().ok()).map(attribute) {
            let long = u64::from(value as u32).to_le_bytes();
            let value = if self.is_long { &long[..] } else { &long[..4] };
            bytes[at..at + value.len()].copy_from_slice(value);
            at += value.len();
        }
    }
}

/// Fills the structure of one release.
fn fill(driver: &Driver, device: i32, bytes: &mut [u8], is_13: bool) -> Result<(), u32> {
    let (mut memory, mut uuid) = (0_usize, [0; 16]);
    // SAFETY: places of these sizes. The name ends with a zero within its place.
    unsafe {
        driver.cuDeviceGetName(bytes[NAME].as_mut_ptr().cast(), 256, device)?;
        driver.cuDeviceTotalMem_v2(&raw mut memory, device)?;
        let _ = driver.cuDeviceGetUuid_v2(&raw mut uuid, device);
    }
    bytes[UUID].copy_from_slice(&uuid);
    bytes[MEMORY..MEMORY + 8].copy_from_slice(&memory.to_le_bytes());
    let attribute = |attribute| {
        let mut value = 0;
        // SAFETY: a place for a number. An older driver does not have all of them.
        let found = unsafe { driver.cuDeviceGetAttribute(&raw mut value, attribute, device) };
        found.map_or(0, |()| value)
    };
    let fields = FIELDS.lines().filter_map(|line| Field::read(line, is_13));
    fields.for_each(|field| field.fill(bytes, attribute));
    Ok(())
}

unsafe fn properties<const LEN: usize>(to: *mut u8, device: i32, is_13: bool) -> Result<(), u32> {
    let driver = driver()?;
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    check_device(driver, device)?;
    let mut bytes = [0; LEN];
    fill(driver, device, &mut bytes, is_13)?;
    // SAFETY: not null, and cudaGetDeviceProperties demands a `cudaDeviceProp` of its release,
    // which has `LEN` bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, LEN) };
    Ok(())
}

unsafe fn properties_12(to: *mut u8, device: i32) -> Result<(), u32> {
    // SAFETY: cudaGetDeviceProperties of release 12 demands that `to` is null or a `cudaDeviceProp`
    // of `LEN_12` bytes.
    unsafe { properties::<LEN_12>(to, device, false) }
}

unsafe fn properties_13(to: *mut u8, device: i32) -> Result<(), u32> {
    // SAFETY: cudaGetDeviceProperties of release 13 demands that `to` is null or a `cudaDeviceProp`
    // of `LEN_13` bytes.
    unsafe { properties::<LEN_13>(to, device, true) }
}
