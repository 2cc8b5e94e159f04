//! The driver's beginning; contexts: waiting for them, and their ends.

use super::declare::hooks;
use crate::direct::memory::{self, end_primary};
use crate::direct::sync::{context, end_context};
use crate::limit::{device, refusal};
use crate::own::explain;
use crate::profile::begin::begin;
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
    cuCtxSynchronize() |real| timed(Api::ContextSync, 0, (0, 0), || context(0, real));
    cuCtxSynchronize_v2(
        of: usize,
    ) |real| timed(Api::ContextSync, 0, (0, 0), || context(of, real));
    cuCtxDestroy(of: usize) |real| memory::end_context(of, || end_context(Some(of), real));
    cuCtxDestroy_v2(of: usize) |real| memory::end_context(of, || end_context(Some(of), real));
    cuDevicePrimaryCtxRetain(
        context: *mut usize, device: i32,
    ) |real| memory::primary(context, device, real);
    cuDevicePrimaryCtxRelease(device: i32) |real| end_primary(device, || end_context(None, real));
    cuDevicePrimaryCtxRelease_v2(device: i32) |real| end_primary(device, || end_context(None, real));
    cuDevicePrimaryCtxReset(device: i32) |real| end_primary(device, || end_context(None, real));
    cuDevicePrimaryCtxReset_v2(device: i32) |real| end_primary(device, || end_context(None, real));
}
