//! Arrays.

use super::slices::ArrayDescriptor;
use crate::calls::export::{forward, give, plain};
use crate::codes::*;
use crate::state::context::enter;
use crate::types::Extent;

plain! {
    cudaMallocArray(array: *mut usize, format: *const Format, width: usize, height: usize, flags: u32) = alloc;
    cudaMalloc3DArray(array: *mut usize, format: *const Format, extent: Extent, flags: u32) = alloc_3d;
    cudaArrayGetInfo(format: *mut Format, extent: *mut Extent, flags: *mut u32, array: usize) = info;
    cudaGetChannelDesc(format: *mut Format, array: usize) = format_of;
}

forward! {
    cudaFreeArray(array: usize) => cuArrayDestroy(array);
}

#[allow(non_snake_case)]
#[unsafe(export_name = "reef_cudaCreateChannelDesc")]
extern "C" fn cudaCreateChannelDesc(x: i32, y: i32, z: i32, w: i32, kind: u32) -> Format {
    Format { bits: [x, y, z, w], kind }
}

/// `cudaChannelFormatDesc`: bits of each channel, and signed, unsigned or float.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Format {
    bits: [i32; 4],
    kind: u32,
}

impl Format {
    /// The driver's number of the format, and the number of channels.
    fn driver(self) -> Result<(u32, u32), u32> {
        let channels = self.bits.iter().take_while(|bits| **bits != 0).count() as u32;
        let format = match (self.kind, self.bits[0]) {
            (0, 8) => 0x08,
            (0, 16) => 0x09,
            (0, 32) => 0x0a,
            (1, 8) => 0x01,
            (1, 16) => 0x02,
            (1, 32) => 0x03,
            (2, 16) => 0x10,
            (2, 32) => 0x20,
            _ => return Err(20), // cudaErrorInvalidChannelDescriptor
        };
        Ok((format, channels))
    }

    fn of(descriptor: &ArrayDescriptor) -> Self {
        let (kind, bits) = match descriptor.format {
            0x08 => (0, 8),
            0x09 => (0, 16),
            0x0a => (0, 32),
            0x01 => (1, 8),
            0x02 => (1, 16),
            0x03 => (1, 32),
            0x10 => (2, 16),
            _ => (2, 32),
        };
        let channel = |at: u32| if at < descriptor.channels { bits } else { 0 };
        Self { bits: [0, 1, 2, 3].map(channel), kind }
    }
}

unsafe fn alloc(
    array: *mut usize,
    format: *const Format,
    width: usize,
    height: usize,
    flags: u32,
) -> Result<(), u32> {
    // SAFETY: cudaMallocArray demands that `array` is null or may be written, and that `format` is
    // null or a `cudaChannelFormatDesc`.
    unsafe { alloc_3d(array, format, Extent { width, height, depth: 0 }, flags) }
}

unsafe fn alloc_3d(
    array: *mut usize,
    format: *const Format,
    extent: Extent,
    flags: u32,
) -> Result<(), u32> {
    let driver = enter()?;
    if array.is_null() || format.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and cudaMalloc3DArray demands a `cudaChannelFormatDesc`, which the program
    // does not change during the call.
    let (format, channels) = unsafe { *format }.driver()?;
    let size = [extent.width, extent.height, extent.depth];
    let descriptor = ArrayDescriptor { size, format, channels, flags };
    // SAFETY: not null, and cudaMalloc3DArray demands that `array` may be written. `descriptor` is
    // a local of the driver's type.
    unsafe { driver.cuArray3DCreate_v2(array, (&raw const descriptor).cast()) }
}

unsafe fn info(
    format: *mut Format,
    extent: *mut Extent,
    flags: *mut u32,
    array: usize,
) -> Result<(), u32> {
    let found = ArrayDescriptor::of(enter()?, array)?;
    let [width, height, depth] = found.size;
    // SAFETY: cudaArrayGetInfo demands that each place is null or may be written. Null is left out.
    unsafe {
        let _ = give(format, Format::of(&found));
        let _ = give(extent, Extent { width, height, depth });
        let _ = give(flags, found.flags);
    }
    Ok(())
}

unsafe fn format_of(format: *mut Format, array: usize) -> Result<(), u32> {
    // SAFETY: cudaGetChannelDesc demands that `format` may be written; `give` refuses null.
    unsafe { give(format, Format::of(&ArrayDescriptor::of(enter()?, array)?)) }
}
