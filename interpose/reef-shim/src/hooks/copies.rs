//! Copies, and look-ups of kernels for profiles. Copies on the device count as work of a program
//! whose time is limited.

use super::declare::{hooks, ptsz_variants, with_copy};
use crate::actions::copy::{Deep, Flat, batch, between, on_device, rows, with_host};
use crate::driver::calls::Stream;
use crate::kernel_variants::kernels;
use crate::limit::charges::Kind;
use crate::profile::names::{copy_name, note_name};
use crate::profile::timed::timed;
use reef_guest::profile::Api;
use std::ffi::c_char;
use std::mem::MaybeUninit;

/// Words of a `CUDA_MEMCPY2D`, some of which a program may leave out.
type FlatWords = MaybeUninit<[usize; 16]>;

/// Words of a `CUDA_MEMCPY3D` or `CUDA_MEMCPY3D_PEER`, some of which a program may leave out.
type DeepWords = MaybeUninit<[usize; 25]>;

ptsz_variants! {
    cuMemcpyHtoD_v2 / cuMemcpyHtoD_v2_ptds(
        to: usize, from: usize, bytes: usize,
    ) |is_ptsz, real| timed(Api::CopyIn, bytes as u64, 0, 0, || {
        with_host(Stream::new(0, is_ptsz), from, real)
    });
    cuMemcpyDtoH_v2 / cuMemcpyDtoH_v2_ptds(
        to: usize, from: usize, bytes: usize,
    ) |is_ptsz, real| timed(Api::CopyOut, bytes as u64, 0, 0, || {
        with_host(Stream::new(0, is_ptsz), to, real)
    });
    cuMemcpyDtoD_v2 / cuMemcpyDtoD_v2_ptds(
        to: usize, from: usize, bytes: usize,
    ) |is_ptsz, real| timed(Api::Copy, bytes as u64, 0, 0, || {
        on_device(Stream::new(0, is_ptsz), real)
    });
    cuMemcpy / cuMemcpy_ptds(
        to: usize, from: usize, bytes: usize,
    ) |is_ptsz, real| timed(Api::Copy, bytes as u64, 0, 0, || {
        between(Stream::new(0, is_ptsz), to, from, real)
    });
    cuMemcpyHtoDAsync_v2 / cuMemcpyHtoDAsync_v2_ptsz(
        to: usize, from: usize, bytes: usize, stream: usize,
    ) |is_ptsz, real| timed(Api::CopyInAsync, bytes as u64, 0, stream, || {
        with_host(Stream::new(stream, is_ptsz), from, real)
    });
    cuMemcpyDtoHAsync_v2 / cuMemcpyDtoHAsync_v2_ptsz(
        to: usize, from: usize, bytes: usize, stream: usize,
    ) |is_ptsz, real| timed(Api::CopyOut, bytes as u64, 0, stream, || {
        with_host(Stream::new(stream, is_ptsz), to, real)
    });
    cuMemcpyDtoDAsync_v2 / cuMemcpyDtoDAsync_v2_ptsz(
        to: usize, from: usize, bytes: usize, stream: usize,
    ) |is_ptsz, real| timed(Api::Copy, bytes as u64, 0, stream, || {
        on_device(Stream::new(stream, is_ptsz), real)
    });
    cuMemcpyAsync / cuMemcpyAsync_ptsz(
        to: usize, from: usize, bytes: usize, stream: usize,
    ) |is_ptsz, real| timed(Api::Copy, bytes as u64, 0, stream, || {
        between(Stream::new(stream, is_ptsz), to, from, real)
    });
}

ptsz_variants! {
    cuMemcpyPeer / cuMemcpyPeer_ptds(
        to: usize, to_context: usize, from: usize, from_context: usize, bytes: usize,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemcpyPeerAsync / cuMemcpyPeerAsync_ptsz(
        to: usize, to_context: usize, from: usize, from_context: usize, bytes: usize, stream: usize,
    ) |is_ptsz, real| on_device(Stream::new(stream, is_ptsz), real);
    cuMemcpyDtoA_v2 / cuMemcpyDtoA_v2_ptds(
        to: usize, offset: usize, from: usize, bytes: usize,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemcpyAtoD_v2 / cuMemcpyAtoD_v2_ptds(
        to: usize, from: usize, offset: usize, bytes: usize,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemcpyAtoA_v2 / cuMemcpyAtoA_v2_ptds(
        to: usize, to_offset: usize, from: usize, from_offset: usize, bytes: usize,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemcpyHtoA_v2 / cuMemcpyHtoA_v2_ptds(
        to: usize, offset: usize, from: usize, bytes: usize,
    ) |is_ptsz, real| with_host(Stream::new(0, is_ptsz), from, real);
    cuMemcpyAtoH_v2 / cuMemcpyAtoH_v2_ptds(
        to: usize, from: usize, offset: usize, bytes: usize,
    ) |is_ptsz, real| with_host(Stream::new(0, is_ptsz), to, real);
    cuMemcpyHtoAAsync_v2 / cuMemcpyHtoAAsync_v2_ptsz(
        to: usize, offset: usize, from: usize, bytes: usize, stream: usize,
    ) |is_ptsz, real| with_host(Stream::new(stream, is_ptsz), from, real);
    cuMemcpyAtoHAsync_v2 / cuMemcpyAtoHAsync_v2_ptsz(
        to: usize, from: usize, offset: usize, bytes: usize, stream: usize,
    ) |is_ptsz, real| with_host(Stream::new(stream, is_ptsz), to, real);
    cuMemcpy2D_v2 / cuMemcpy2D_v2_ptds / cuMemcpy2DUnaligned_v2 / cuMemcpy2DUnaligned_v2_ptds(
        sides: usize,
    ) |is_ptsz, real(sides)| with_copy(sides as *const FlatWords, |sides| {
        rows(Stream::new(0, is_ptsz), sides.cast::<Flat>(), || real(sides as usize))
    });
    cuMemcpy3D_v2 / cuMemcpy3D_v2_ptds / cuMemcpy3DPeer / cuMemcpy3DPeer_ptds(
        sides: usize,
    ) |is_ptsz, real(sides)| with_copy(sides as *const DeepWords, |sides| {
        rows(Stream::new(0, is_ptsz), sides.cast::<Deep>(), || real(sides as usize))
    });
    cuMemcpy2DAsync_v2 / cuMemcpy2DAsync_v2_ptsz(
        sides: usize, stream: usize,
    ) |is_ptsz, real(sides)| with_copy(sides as *const FlatWords, |sides| {
        rows(Stream::new(stream, is_ptsz), sides.cast::<Flat>(), || real(sides as usize))
    });
    cuMemcpy3DAsync_v2 / cuMemcpy3DAsync_v2_ptsz / cuMemcpy3DPeerAsync / cuMemcpy3DPeerAsync_ptsz(
        sides: usize, stream: usize,
    ) |is_ptsz, real(sides)| with_copy(sides as *const DeepWords, |sides| {
        rows(Stream::new(stream, is_ptsz), sides.cast::<Deep>(), || real(sides as usize))
    });
}

// With attributes, and several at once.
ptsz_variants! {
    cuMemcpyWithAttributesAsync / cuMemcpyWithAttributesAsync_ptsz(
        to: usize, from: usize, bytes: usize, attributes: usize, stream: usize,
    ) |is_ptsz, real| between(Stream::new(stream, is_ptsz), to, from, real);
    cuMemcpyBatchAsync / cuMemcpyBatchAsync_ptsz(
        to: usize, from: usize, bytes: usize, count: usize, attributes: usize, from_which: usize, kinds: usize,
        failed: usize, stream: usize,
    ) |is_ptsz, real(to, from)| batch(Stream::new(stream, is_ptsz), [to, from], count, real);
    cuMemcpyBatchAsync_v2 / cuMemcpyBatchAsync_v2_ptsz(
        to: usize, from: usize, bytes: usize, count: usize, attributes: usize, from_which: usize, kinds: usize,
        stream: usize,
    ) |is_ptsz, real(to, from)| batch(Stream::new(stream, is_ptsz), [to, from], count, real);
    cuMemcpy3DWithAttributesAsync / cuMemcpy3DWithAttributesAsync_ptsz(
        copy: usize, flags: u64, stream: usize,
    ) |is_ptsz, real| on_device(Stream::new(stream, is_ptsz), real);
    cuMemcpy3DBatchAsync / cuMemcpy3DBatchAsync_ptsz(
        count: usize, copies: usize, failed: usize, flags: u64, stream: usize,
    ) |is_ptsz, real| on_device(Stream::new(stream, is_ptsz), real);
    cuMemcpy3DBatchAsync_v2 / cuMemcpy3DBatchAsync_v2_ptsz(
        count: usize, copies: usize, flags: u64, stream: usize,
    ) |is_ptsz, real| on_device(Stream::new(stream, is_ptsz), real);
}

// From before addresses had 64 bits: arrays are named by handles, so they take the device as those
// of today do. Copies of rows, whose sides are not read, count as copies within it.
ptsz_variants! {
    cuMemcpyDtoD / cuMemcpyDtoD_ptds(
        to: u32, from: u32, bytes: u32,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemcpyDtoDAsync / cuMemcpyDtoDAsync_ptsz(
        to: u32, from: u32, bytes: u32, stream: usize,
    ) |is_ptsz, real| on_device(Stream::new(stream, is_ptsz), real);
    cuMemcpyDtoA / cuMemcpyDtoA_ptds(
        to: usize, offset: u32, from: u32, bytes: u32,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemcpyAtoD / cuMemcpyAtoD_ptds(
        to: u32, from: usize, offset: u32, bytes: u32,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemcpyAtoA / cuMemcpyAtoA_ptds(
        to: usize, to_offset: u32, from: usize, from_offset: u32, bytes: u32,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemcpyHtoA / cuMemcpyHtoA_ptds(
        to: usize, offset: u32, from: usize, bytes: u32,
    ) |is_ptsz, real| with_host(Stream::new(0, is_ptsz), from, real);
    cuMemcpyAtoH / cuMemcpyAtoH_ptds(
        to: usize, from: usize, offset: u32, bytes: u32,
    ) |is_ptsz, real| with_host(Stream::new(0, is_ptsz), to, real);
    cuMemcpyHtoAAsync / cuMemcpyHtoAAsync_ptsz(
        to: usize, offset: u32, from: usize, bytes: u32, stream: usize,
    ) |is_ptsz, real| with_host(Stream::new(stream, is_ptsz), from, real);
    cuMemcpyAtoHAsync / cuMemcpyAtoHAsync_ptsz(
        to: usize, from: usize, offset: u32, bytes: u32, stream: usize,
    ) |is_ptsz, real| with_host(Stream::new(stream, is_ptsz), to, real);
    cuMemcpy2D / cuMemcpy2D_ptds / cuMemcpy2DUnaligned / cuMemcpy2DUnaligned_ptds / cuMemcpy3D / cuMemcpy3D_ptds(
        sides: usize,
    ) |is_ptsz, real| on_device(Stream::new(0, is_ptsz), real);
    cuMemcpy2DAsync / cuMemcpy2DAsync_ptsz / cuMemcpy3DAsync / cuMemcpy3DAsync_ptsz(
        sides: usize, stream: usize,
    ) |is_ptsz, real| on_device(Stream::new(stream, is_ptsz), real);
}

hooks! {
    cuModuleGetFunction(
        to: *mut usize, module: usize, called: *const c_char,
    ) |real| kernels::look_up((Kind::Module, module), to, called, || note_name(to, called, real));
    cuLibraryGetKernel(
        to: *mut usize, library: usize, called: *const c_char,
    ) |real| kernels::look_up((Kind::Library, library), to, called, || note_name(to, called, real));
    cuKernelGetFunction(to: *mut usize, kernel: usize) |real| kernels::copy(to, kernel, || copy_name(to, kernel, real));
}
