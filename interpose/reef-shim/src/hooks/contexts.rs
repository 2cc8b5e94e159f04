//! Initialization of the driver, contexts, and ranges of a profile.

use super::declare::{hooks, write_through};
use crate::actions::context_memory;
use crate::actions::memory;
use crate::actions::modules;
use crate::actions::primary;
use crate::actions::sync;
use crate::explain;
use crate::limit::{device, refusal};
use crate::profile::begin::{begin, range};
use crate::profile::timed::{timed, timed_init};
use crate::swap::agent;
use reef_guest::profile::Api;

hooks! {
    cuInit(flags: u32) |real| {
        explain::begin();
        begin();
        agent::start();
        // Opening the driver has read the limits.
        match refusal::of_settings() {
            None => {
                device::explain_limits();
                modules::read_variables();
                timed_init(real)
            }
            Some(code) => code,
        }
    };
    cuCtxSynchronize() |real| timed(Api::ContextSync, 0, 0, 0, || sync::context(0, real));
    cuCtxSynchronize_v2(
        of: usize,
    ) |real| timed(Api::ContextSync, 0, 0, 0, || sync::context(of, real));
    cuCtxDestroy / cuCtxDestroy_v2(of: usize) |real| memory::end_context(of, || sync::end_context(of, real));
    cuCtxDetach(of: usize) |real| memory::detach_context(of, || sync::detach_context(of, real));
    cuGreenCtxCreate(
        green: usize, resources: usize, device: i32, flags: u32,
    ) |real(green)| write_through(green as *mut usize, |green| {
        context_memory::create_green(green, device, || real(green as usize))
    });
    cuGreenCtxDestroy(green: usize) |real| memory::end_green(green, || sync::end_green(green, real));
    cuDevicePrimaryCtxRetain(
        context: usize, device: i32,
    ) |real(context)| write_through(context as *mut usize, |context| {
        context_memory::retain(context, device, || {
            primary::retain(context, device, || real(context as usize))
        })
    });
    cuDevicePrimaryCtxRelease / cuDevicePrimaryCtxRelease_v2(device: i32) |real| primary::release(device, real);
    cuDevicePrimaryCtxReset / cuDevicePrimaryCtxReset_v2(device: i32) |real| primary::reset(device, real);
}

// Where a program says which of its calls a profile records.
hooks! {
    cuProfilerStart() |real| range(true, real);
    cuProfilerStop() |real| range(false, real);
}
