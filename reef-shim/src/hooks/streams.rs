//! Streams: waits for them, their ends, and captures.

use super::declare::{hooks, twins};
use crate::actions::sync::{self, begin_capture, end_capture};
use crate::driver::calls::Stream;
use crate::graph_gates::shape::was_gated;
use crate::profile::timed::timed;
use reef_guest::profile::Api;
use std::ffi::c_void;

twins! {
    cuStreamSynchronize / cuStreamSynchronize_ptsz(
        stream: usize,
    ) |is_twin, real| timed(Api::StreamSync, 0, 0, stream, || sync::stream(Stream::new(stream, is_twin), real));
    cuStreamBeginCapture / cuStreamBeginCapture_ptsz(
        stream: usize,
    ) |is_twin, real| begin_capture(Stream::new(stream, is_twin), || true, real);
    cuStreamBeginCapture_v2 / cuStreamBeginCapture_v2_ptsz(
        stream: usize, mode: u32,
    ) |is_twin, real| begin_capture(Stream::new(stream, is_twin), || true, real);
    cuStreamBeginCaptureToGraph / cuStreamBeginCaptureToGraph_ptsz(
        stream: usize, graph: usize, after: *const usize, edges: *const c_void, count: usize, mode: u32,
    ) |is_twin, real| begin_capture(Stream::new(stream, is_twin), || false, real);
    cuStreamBeginRecaptureToGraph / cuStreamBeginRecaptureToGraph_ptsz(
        stream: usize, mode: u32, graph: usize, differs: *const c_void, data: *mut c_void,
    ) |is_twin, real| begin_capture(Stream::new(stream, is_twin), || was_gated(graph), real);
    cuStreamBeginCaptureToCig / cuStreamBeginCaptureToCig_ptsz(
        stream: usize, params: *mut c_void,
    ) |is_twin, real| begin_capture(Stream::new(stream, is_twin), || false, real);
    cuStreamEndCapture / cuStreamEndCapture_ptsz(
        stream: usize, graph: *mut usize,
    ) |is_twin, real| end_capture(Stream::new(stream, is_twin), real);
    cuStreamEndCaptureToCig / cuStreamEndCaptureToCig_ptsz(
        stream: usize,
    ) |is_twin, real| end_capture(Stream::new(stream, is_twin), real);
}

hooks! {
    cuStreamDestroy(stream: usize) |real| sync::destroy_stream(Stream::new(stream, false), real);
    cuStreamDestroy_v2(stream: usize) |real| sync::destroy_stream(Stream::new(stream, false), real);
}
