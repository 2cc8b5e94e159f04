//! Copies, and look-ups of kernels: for profiles alone.

use super::declare::{hooks, twins};
use crate::profile::names::{name, same};
use crate::profile::timed::timed;
use reef_guest::profile::Api;
use std::ffi::c_char;

twins! {
    cuMemcpyHtoD_v2 / cuMemcpyHtoD_v2_ptds(
        to: usize, from: usize, bytes: usize,
    ) |_is_twin, real| timed(Api::CopyIn, bytes as u64, (0, 0), real);
    cuMemcpyDtoH_v2 / cuMemcpyDtoH_v2_ptds(
        to: usize, from: usize, bytes: usize,
    ) |_is_twin, real| timed(Api::CopyOut, bytes as u64, (0, 0), real);
    cuMemcpyDtoD_v2 / cuMemcpyDtoD_v2_ptds(
        to: usize, from: usize, bytes: usize,
    ) |_is_twin, real| timed(Api::Copy, bytes as u64, (0, 0), real);
    cuMemcpy / cuMemcpy_ptds(
        to: usize, from: usize, bytes: usize,
    ) |_is_twin, real| timed(Api::Copy, bytes as u64, (0, 0), real);
    cuMemcpyHtoDAsync_v2 / cuMemcpyHtoDAsync_v2_ptsz(
        to: usize, from: usize, bytes: usize, stream: usize,
    ) |_is_twin, real| timed(Api::CopyInAsync, bytes as u64, (0, stream), real);
    cuMemcpyDtoHAsync_v2 / cuMemcpyDtoHAsync_v2_ptsz(
        to: usize, from: usize, bytes: usize, stream: usize,
    ) |_is_twin, real| timed(Api::CopyOut, bytes as u64, (0, stream), real);
    cuMemcpyDtoDAsync_v2 / cuMemcpyDtoDAsync_v2_ptsz(
        to: usize, from: usize, bytes: usize, stream: usize,
    ) |_is_twin, real| timed(Api::Copy, bytes as u64, (0, stream), real);
    cuMemcpyAsync / cuMemcpyAsync_ptsz(
        to: usize, from: usize, bytes: usize, stream: usize,
    ) |_is_twin, real| timed(Api::Copy, bytes as u64, (0, stream), real);
}

hooks! {
    cuModuleGetFunction(
        to: *mut usize, module: usize, called: *const c_char,
    ) |real| name(to, called, real);
    cuLibraryGetKernel(
        to: *mut usize, library: usize, called: *const c_char,
    ) |real| name(to, called, real);
    cuKernelGetFunction(to: *mut usize, kernel: usize) |real| same(to, kernel, real);
}
