//! Streams: waits for them, their ends, and captures.

use super::declare::{hooks, ptsz_variants};
use crate::actions::sync::{self, begin_capture, end_capture};
use crate::driver::calls::Stream;
use crate::driver::pause_gate::touching;
use crate::graph_gates::shape::was_gated;
use crate::profile::timed::timed;
use reef_guest::profile::Api;
use std::ffi::c_void;

ptsz_variants! {
    cuStreamSynchronize / cuStreamSynchronize_ptsz(
        stream: usize,
    ) |is_ptsz, real| timed(Api::StreamSync, 0, 0, stream, || sync::stream(Stream::new(stream, is_ptsz), real));
    cuStreamBeginCapture / cuStreamBeginCapture_ptsz(
        stream: usize,
    ) |is_ptsz, real| begin_capture(Stream::new(stream, is_ptsz), || true, real);
    cuStreamBeginCapture_v2 / cuStreamBeginCapture_v2_ptsz(
        stream: usize, mode: u32,
    ) |is_ptsz, real| begin_capture(Stream::new(stream, is_ptsz), || true, real);
    cuStreamBeginCaptureToGraph / cuStreamBeginCaptureToGraph_ptsz(
        stream: usize, graph: usize, after: *const usize, edges: *const c_void, count: usize, mode: u32,
    ) |is_ptsz, real| begin_capture(Stream::new(stream, is_ptsz), || false, real);
    cuStreamBeginRecaptureToGraph / cuStreamBeginRecaptureToGraph_ptsz(
        stream: usize, mode: u32, graph: usize, differs: *const c_void, data: *mut c_void,
    ) |is_ptsz, real| begin_capture(Stream::new(stream, is_ptsz), || was_gated(graph), real);
    cuStreamBeginCaptureToCig / cuStreamBeginCaptureToCig_ptsz(
        stream: usize, params: *mut c_void,
    ) |is_ptsz, real| begin_capture(Stream::new(stream, is_ptsz), || false, real);
    cuStreamEndCapture / cuStreamEndCapture_ptsz(
        stream: usize, graph: *mut usize,
    ) |is_ptsz, real| end_capture(Stream::new(stream, is_ptsz), real);
    cuStreamEndCaptureToCig / cuStreamEndCaptureToCig_ptsz(
        stream: usize,
    ) |is_ptsz, real| end_capture(Stream::new(stream, is_ptsz), real);
}

// Reads and writes of memory by a stream.
ptsz_variants! {
    cuStreamWaitValue32 / cuStreamWaitValue32_ptsz / cuStreamWaitValue32_v2 / cuStreamWaitValue32_v2_ptsz /
    cuStreamWriteValue32 / cuStreamWriteValue32_ptsz / cuStreamWriteValue32_v2 / cuStreamWriteValue32_v2_ptsz(
        stream: usize, at: u64, value: u32, flags: u32,
    ) |_is_ptsz, real| touching(real);
    cuStreamWaitValue64 / cuStreamWaitValue64_ptsz / cuStreamWaitValue64_v2 / cuStreamWaitValue64_v2_ptsz /
    cuStreamWriteValue64 / cuStreamWriteValue64_ptsz / cuStreamWriteValue64_v2 / cuStreamWriteValue64_v2_ptsz(
        stream: usize, at: u64, value: u64, flags: u32,
    ) |_is_ptsz, real| touching(real);
    cuStreamBatchMemOp / cuStreamBatchMemOp_ptsz / cuStreamBatchMemOp_v2 / cuStreamBatchMemOp_v2_ptsz(
        stream: usize, count: u32, all: *mut c_void, flags: u32,
    ) |_is_ptsz, real| touching(real);
}

hooks! {
    cuEventSynchronize(event: usize) |real| sync::event(real);
    cuStreamDestroy / cuStreamDestroy_v2(stream: usize) |real| sync::destroy_stream(Stream::new(stream, false), real);
}
