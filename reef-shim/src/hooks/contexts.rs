//! Initialization of the driver, contexts, and ranges of a profile.

use super::declare::hooks;
use crate::actions::memory;
use crate::actions::sync;
use crate::explain;
use crate::limit::{device, refusal};
use crate::profile::begin::{begin, range};
use crate::profile::timed::{timed, timed_init};
use reef_guest::profile::Api;

hooks! {
    cuInit(flags: u32) |real| {
        explain::begin();
        begin();
        // Opening the driver has read the limits.
        match refusal::of_settings() {
            None => {
                device::explain_limits();
                timed_init(real)
            }
            Some(code) => code,
        }
    };
    cuCtxSynchronize() |real| timed(Api::ContextSync, 0, 0, 0, || sync::context(0, real));
    cuCtxSynchronize_v2(
        of: usize,
    ) |real| timed(Api::ContextSync, 0, 0, 0, || sync::context(of, real));
    cuCtxDestroy(of: usize) |real| memory::end_context(of, || sync::end_context(of, real));
    cuCtxDestroy_v2(of: usize) |real| memory::end_context(of, || sync::end_context(of, real));
    cuCtxDetach(of: usize) |real| memory::detach_context(of, || sync::detach_context(of, real));
    cuGreenCtxDestroy(green: usize) |real| sync::end_green(green, real);
    cuDevicePrimaryCtxRetain(
        context: *mut usize, device: i32,
    ) |real| memory::primary(context, device, real);
    cuDevicePrimaryCtxRelease(device: i32) |real| memory::end_primary(device, || sync::end_primary(device, real));
    cuDevicePrimaryCtxRelease_v2(device: i32) |real| memory::end_primary(device, || sync::end_primary(device, real));
    cuDevicePrimaryCtxReset(device: i32) |real| memory::end_primary(device, || sync::end_primary(device, real));
    cuDevicePrimaryCtxReset_v2(device: i32) |real| memory::end_primary(device, || sync::end_primary(device, real));
}

// Where a program says which of its calls a profile records.
hooks! {
    cuProfilerStart() |real| range(true, real);
    cuProfilerStop() |real| range(false, real);
}
