//! Launches of kernels and graphs.

use super::declare::{hooks, twins};
use crate::direct::graph_memory::backed;
use crate::direct::launch::{Work, launch};
use crate::own::calls::Stream;
use crate::profile::timed::timed;
use reef_guest::profile::Api;
use std::ffi::c_void;

/// `CUlaunchConfig`, as far as it is read.
#[repr(C)]
#[derive(Debug)]
struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: usize,
    attributes: *const Attribute,
    count: u32,
}

/// `CUlaunchAttribute`: a kind, and a value of 64 bytes at the next place that is aligned to 8.
#[repr(C, align(8))]
#[derive(Debug)]
struct Attribute {
    kind: u32,
    value: [u64; 8],
}

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`.
const OVERLAPS: u32 = 6;

fn blocks(grid: [u32; 3]) -> u64 {
    grid.into_iter().fold(1, |product, side| u64::from(side).saturating_mul(product))
}

/// How many threads a kernel has.
fn threads(grid: [u32; 3], block: [u32; 3]) -> u64 {
    blocks(grid).saturating_mul(blocks(block))
}

impl Config {
    fn work(&self) -> Work {
        let count = if self.attributes.is_null() { 0 } else { self.count as usize };
        // SAFETY: the program's promise to the driver: so many attributes, or none.
        let attributes =
            (count > 0).then(|| unsafe { std::slice::from_raw_parts(self.attributes, count) });
        let is_set =
            |attribute: &Attribute| attribute.kind == OVERLAPS && attribute.value[0] as u32 != 0;
        match attributes.is_some_and(|attributes| attributes.iter().any(is_set)) {
            true => Work::Overlapping,
            false => Work::Kernel(blocks(self.grid)),
        }
    }
}

twins! {
    cuLaunchKernel / cuLaunchKernel_ptsz(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: usize, params: *mut *mut c_void, extra: *mut *mut c_void,
    ) |is_twin, real| {
        let work = Work::Kernel(blocks([grid_x, grid_y, grid_z]));
        let threads = threads([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        timed(Api::Launch, threads, (function, stream), || {
            launch(Stream::new(stream, is_twin), work, real)
        })
    };
    cuLaunchCooperativeKernel / cuLaunchCooperativeKernel_ptsz(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: usize, params: *mut *mut c_void,
    ) |is_twin, real| {
        let work = Work::Kernel(blocks([grid_x, grid_y, grid_z]));
        let threads = threads([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        timed(Api::Launch, threads, (function, stream), || {
            launch(Stream::new(stream, is_twin), work, real)
        })
    };
    cuLaunchKernelEx / cuLaunchKernelEx_ptsz(
        config: *const Config, function: usize, params: *mut *mut c_void, extra: *mut *mut c_void,
    ) |is_twin, real| {
        // SAFETY: null, or the program's promise to the driver.
        match unsafe { config.as_ref() } {
            None => real(),
            Some(config) => {
                let (threads, stream) = (threads(config.grid, config.block), config.stream);
                timed(Api::Launch, threads, (function, stream), || {
                    launch(Stream::new(stream, is_twin), config.work(), real)
                })
            }
        }
    };
    cuGraphLaunch / cuGraphLaunch_ptsz(
        exec: usize, stream: usize,
    ) |is_twin, real| timed(Api::GraphLaunch, 0, (exec, stream), || {
        let stream = Stream::new(stream, is_twin);
        backed(exec, stream, || launch(stream, Work::Graph, real))
    });
}

// From before streams had twins.
hooks! {
    cuLaunch(function: usize) |real| launch(Stream::new(0, false), Work::Kernel(1), real);
    cuLaunchGrid(
        function: usize, width: i32, height: i32,
    ) |real| launch(Stream::new(0, false), Work::Kernel(1), real);
    cuLaunchGridAsync(
        function: usize, width: i32, height: i32, stream: usize,
    ) |real| launch(Stream::new(stream, false), Work::Kernel(1), real);
}
