//! The driver's beginning; contexts: waiting for them, and their ends.

use super::declare::hooks;
use crate::direct::sync::{context, end_context};
use crate::guest::explain;

hooks! {
    cuInit(flags: u32) |real| {
        explain::begin();
        real()
    };
    cuCtxSynchronize() |real| context(0, real);
    cuCtxSynchronize_v2(of: usize) |real| context(of, real);
    cuCtxDestroy(of: usize) |real| end_context(Some(of), real);
    cuCtxDestroy_v2(of: usize) |real| end_context(Some(of), real);
    cuDevicePrimaryCtxRelease(device: i32) |real| end_context(None, real);
    cuDevicePrimaryCtxRelease_v2(device: i32) |real| end_context(None, real);
    cuDevicePrimaryCtxReset(device: i32) |real| end_context(None, real);
    cuDevicePrimaryCtxReset_v2(device: i32) |real| end_context(None, real);
}
