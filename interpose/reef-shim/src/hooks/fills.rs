//! Fills of the device's memory, which count as work of a program whose time is limited.

use super::declare::ptsz_variants;
use crate::actions::copy::on_device;
use crate::driver::calls::Stream;

ptsz_variants! {
    cuMemsetD8_v2 / cuMemsetD8_v2_ptds(
        to: usize, value: u8, count: usize,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemsetD8Async / cuMemsetD8Async_ptsz(
        to: usize, value: u8, count: usize, stream: usize,
    ) |is_ptsz, real| on_device(Stream::new(stream, is_ptsz), real);
    cuMemsetD2D8_v2 / cuMemsetD2D8_v2_ptds(
        to: usize, pitch: usize, value: u8, width: usize, height: usize,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemsetD2D8Async / cuMemsetD2D8Async_ptsz(
        to: usize, pitch: usize, value: u8, width: usize, height: usize, stream: usize,
    ) |is_ptsz, real| on_device(Stream::new(stream, is_ptsz), real);
    cuMemsetD16_v2 / cuMemsetD16_v2_ptds(
        to: usize, value: u16, count: usize,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemsetD16Async / cuMemsetD16Async_ptsz(
        to: usize, value: u16, count: usize, stream: usize,
    ) |is_ptsz, real| on_device(Stream::new(stream, is_ptsz), real);
    cuMemsetD2D16_v2 / cuMemsetD2D16_v2_ptds(
        to: usize, pitch: usize, value: u16, width: usize, height: usize,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemsetD2D16Async / cuMemsetD2D16Async_ptsz(
        to: usize, pitch: usize, value: u16, width: usize, height: usize, stream: usize,
    ) |is_ptsz, real| on_device(Stream::new(stream, is_ptsz), real);
    cuMemsetD32_v2 / cuMemsetD32_v2_ptds(
        to: usize, value: u32, count: usize,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemsetD32Async / cuMemsetD32Async_ptsz(
        to: usize, value: u32, count: usize, stream: usize,
    ) |is_ptsz, real| on_device(Stream::new(stream, is_ptsz), real);
    cuMemsetD2D32_v2 / cuMemsetD2D32_v2_ptds(
        to: usize, pitch: usize, value: u32, width: usize, height: usize,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemsetD2D32Async / cuMemsetD2D32Async_ptsz(
        to: usize, pitch: usize, value: u32, width: usize, height: usize, stream: usize,
    ) |is_ptsz, real| on_device(Stream::new(stream, is_ptsz), real);
}

// From before addresses had 64 bits.
ptsz_variants! {
    cuMemsetD8 / cuMemsetD8_ptds(
        to: u32, value: u8, count: u32,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemsetD2D8 / cuMemsetD2D8_ptds(
        to: u32, pitch: u32, value: u8, width: u32, height: u32,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemsetD16 / cuMemsetD16_ptds(
        to: u32, value: u16, count: u32,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemsetD2D16 / cuMemsetD2D16_ptds(
        to: u32, pitch: u32, value: u16, width: u32, height: u32,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemsetD32 / cuMemsetD32_ptds(
        to: u32, value: u32, count: u32,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemsetD2D32 / cuMemsetD2D32_ptds(
        to: u32, pitch: u32, value: u32, width: u32, height: u32,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
}
