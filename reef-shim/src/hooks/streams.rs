//! Streams: waiting for them, their ends, captures.

use super::declare::{hooks, twins};
use crate::direct::sync;
use crate::guest::capture;
use crate::own::calls::Stream;
use crate::profile::timed::timed;
use reef_guest::profile::Api;
use std::ffi::c_void;

twins! {
    cuStreamSynchronize / cuStreamSynchronize_ptsz(
        stream: usize,
    ) |is_twin, real| timed(Api::StreamSync, 0, (0, stream), || sync::stream(Stream::new(stream, is_twin), real));
    cuStreamBeginCapture / cuStreamBeginCapture_ptsz(
        stream: usize,
    ) |_is_twin, real| capture::begin(real);
    cuStreamBeginCapture_v2 / cuStreamBeginCapture_v2_ptsz(
        stream: usize, mode: u32,
    ) |_is_twin, real| capture::begin(real);
    cuStreamBeginCaptureToGraph / cuStreamBeginCaptureToGraph_ptsz(
        stream: usize, graph: usize, after: *const usize, edges: *const c_void, count: usize, mode: u32,
    ) |_is_twin, real| capture::begin(real);
    cuStreamEndCapture / cuStreamEndCapture_ptsz(
        stream: usize, graph: *mut usize,
    ) |_is_twin, real| capture::end(real);
}

hooks! {
    cuStreamDestroy(stream: usize) |real| sync::destroy_stream(Stream::new(stream, false), real);
    cuStreamDestroy_v2(stream: usize) |real| sync::destroy_stream(Stream::new(stream, false), real);
}
