//! Launches of kernels and graphs.

use super::declare::{hooks, ptsz_variants, with_copy};
use crate::actions::launch::{Work, launch_all, launch_gated};
use crate::driver::calls::Stream;
use crate::graph_gates::backing::backed;
use crate::graph_gates::kernel_nodes;
use crate::kernel_variants::launch::{KernelLaunch, launch_variant};
use crate::limit::refusal::say;
use crate::order;
use crate::profile::timed::timed;
use crate::rerun::check::launch_and_compare;
use crate::settings::{keeps_code, limits_time, runs_again};
use reef_cuda_abi::layouts::{LaunchConfig, LaunchParams};
use reef_guest::profile::Api;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`.
const OVERLAPS: u32 = 6;

/// Maximum number of launches on several devices by one call, each on another device. The driver
/// refuses a longer list than it has devices, and doesn't read it.
const MAX_DEVICES: u32 = 64;

fn blocks(grid: [u32; 3]) -> u64 {
    grid.into_iter().fold(1, |product, side| u64::from(side).saturating_mul(product))
}

/// Returns the number of threads of a kernel.
fn threads(grid: [u32; 3], block: [u32; 3]) -> u64 {
    blocks(grid).saturating_mul(blocks(block))
}

fn stream_and_work(launch: &LaunchParams) -> (Stream, Work) {
    (Stream::new(launch.stream, false), Work::Kernel(blocks(launch.grid)))
}

/// Returns the work of a launch, which its attributes tell.
///
/// # Safety
///
/// `attributes` has `count` entries, as the driver requires.
unsafe fn work(config: &LaunchConfig) -> Work {
    let count = if config.attributes.is_null() { 0 } else { config.count as usize };
    let is_set = |at: usize| {
        // SAFETY: `attributes` is not null if `count` isn't zero, and `# Safety` demands `count`
        // entries. The program has initialized only the part of a value that its kind uses, so
        // only an `int` is read.
        unsafe {
            let attribute = config.attributes.add(at);
            (*attribute).kind == OVERLAPS
                && (&raw const (*attribute).value).cast::<u32>().read() != 0
        }
    };
    if (0..count).any(is_set) { Work::Overlapping } else { Work::Kernel(blocks(config.grid)) }
}

/// Launches a kernel by its gate alone, unless code of kernels is kept.
#[inline]
fn launch_kernel(of: &KernelLaunch, work: Work, real: impl FnOnce() -> u32) -> u32 {
    if keeps_code() {
        launch_with_code(of, work, real)
    } else {
        launch_gated(of.stream, work, real)
    }
}

/// Launches a kernel whose code is kept: decides between the diagnostic and slices. The diagnostic
/// is not for a program whose time is limited, because its launches are not measured.
fn launch_with_code(of: &KernelLaunch, work: Work, real: impl FnOnce() -> u32) -> u32 {
    if !runs_again() {
        launch_variant(of, work, real)
    } else if limits_time() {
        say("REEF_RERUN has no effect on a program with a limit of time");
        launch_gated(of.stream, work, real)
    } else {
        launch_and_compare(of, real)
    }
}

ptsz_variants! {
    cuLaunchKernel / cuLaunchKernel_ptsz(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: usize, params: *mut *mut c_void, extra: *mut *mut c_void,
    ) |is_ptsz, real| {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let (work, is_simple) = (Work::Kernel(blocks(grid)), extra.is_null());
        timed(Api::Launch, threads(grid, block), function, stream, || {
            let stream = Stream::new(stream, is_ptsz);
            let of = KernelLaunch { function, grid, block, shared, stream, params, is_simple };
            launch_kernel(&of, work, real)
        })
    };
    cuLaunchCooperativeKernel / cuLaunchCooperativeKernel_ptsz(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: usize, params: *mut *mut c_void,
    ) |is_ptsz, real| {
        let work = Work::Kernel(blocks([grid_x, grid_y, grid_z]));
        let threads = threads([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        timed(Api::Launch, threads, function, stream, || {
            order::shared(|| launch_gated(Stream::new(stream, is_ptsz), work, real))
        })
    };
    cuLaunchKernelEx / cuLaunchKernelEx_ptsz(
        config: usize, function: usize, params: *mut *mut c_void, extra: *mut *mut c_void,
    ) |is_ptsz, real(config)| with_copy(config as *const MaybeUninit<LaunchConfig>, |config| {
        // The launch waits before the driver reads it, and is counted in the stream that is read.
        let real = || real(config as usize);
        // SAFETY: null, or a copy of the program's `CUlaunchConfig`.
        match unsafe { config.cast::<LaunchConfig>().as_ref() } {
            None => real(),
            Some(config) => {
                let (threads, stream) = (threads(config.grid, config.block), config.stream);
                timed(Api::Launch, threads, function, stream, || {
                    let stream = Stream::new(stream, is_ptsz);
                    let LaunchConfig { grid, block, shared, .. } = *config;
                    let is_simple = config.count == 0 && extra.is_null();
                    let of = KernelLaunch { function, grid, block, shared, stream, params, is_simple };
                    // SAFETY: the driver demands that `config.attributes` is null or has
                    // `config.count` entries.
                    launch_kernel(&of, unsafe { work(config) }, real)
                })
            }
        }
    });
    cuGraphLaunch / cuGraphLaunch_ptsz(
        exec: usize, stream: usize,
    ) |is_ptsz, real| timed(Api::GraphLaunch, 0, exec, stream, || {
        let stream = Stream::new(stream, is_ptsz);
        backed(exec, stream, real, |real| {
            let work = Work::Graph(kernel_nodes::of(exec));
            order::shared(|| launch_gated(stream, work, real))
        })
    });
    cuMemBatchDecompressAsync / cuMemBatchDecompressAsync_ptsz(
        params: *mut c_void, count: usize, flags: u32, failed: *mut usize, stream: usize,
    ) |is_ptsz, real| order::shared(|| {
        launch_gated(Stream::new(stream, is_ptsz), Work::Kernel(count as u64), real)
    });
}

// Functions without per-thread variants, from before per-thread streams.
hooks! {
    cuLaunchCooperativeKernelMultiDevice(
        list: usize, count: u32, flags: u32,
    ) |real(list)| {
        let count = if list == 0 || count > MAX_DEVICES { 0 } else { count as usize };
        let from = list as *const LaunchParams;
        // SAFETY: not null if `count` isn't zero, and the driver demands a list of `count`
        // launches, which it reads as well.
        let own: Vec<_> = (0..count).map(|at| unsafe { from.add(at).read() }).collect();
        let list = if own.is_empty() { list } else { own.as_ptr() as usize };
        launch_all(own.iter().map(stream_and_work), || real(list))
    };
    cuLaunch(function: usize) |real| launch_gated(Stream::new(0, false), Work::Kernel(1), real);
    cuLaunchGrid(
        function: usize, width: i32, height: i32,
    ) |real| launch_gated(Stream::new(0, false), Work::Kernel(1), real);
    cuLaunchGridAsync(
        function: usize, width: i32, height: i32, stream: usize,
    ) |real| launch_gated(Stream::new(stream, false), Work::Kernel(1), real);
}
