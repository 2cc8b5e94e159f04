//! Captures of streams.

use crate::calls::export::{forward, forward_ptsz, ptsz};
use crate::state::context::enter;
use crate::types::Stream;
use std::ffi::c_void;

forward! {
    cudaThreadExchangeStreamCaptureMode(mode: *mut u32) => cuThreadExchangeStreamCaptureMode(mode);
}

forward_ptsz! {
    cudaStreamBeginCapture / cudaStreamBeginCapture_ptsz(stream: Stream, mode: u32)
        => cuStreamBeginCapture_v2(stream, mode);
    cudaStreamBeginCaptureToGraph / cudaStreamBeginCaptureToGraph_ptsz(
        stream: Stream, graph: usize, after: *const usize, edges: *const c_void, count: usize, mode: u32
    ) => cuStreamBeginCaptureToGraph(stream, graph, after, edges, count, mode);
    cudaStreamEndCapture / cudaStreamEndCapture_ptsz(stream: Stream, graph: *mut usize)
        => cuStreamEndCapture(stream, graph);
    cudaStreamIsCapturing / cudaStreamIsCapturing_ptsz(stream: Stream, status: *mut u32)
        => cuStreamIsCapturing(stream, status);
    cudaStreamGetCaptureInfo / cudaStreamGetCaptureInfo_ptsz(stream: Stream, status: *mut u32, id: *mut u64)
        => cuStreamGetCaptureInfo(stream, status, id);
    cudaStreamGetCaptureInfo_v2 / cudaStreamGetCaptureInfo_v2_ptsz(
        stream: Stream, status: *mut u32, id: *mut u64, graph: *mut usize, after: *mut *const usize, count: *mut usize
    ) => cuStreamGetCaptureInfo_v2(stream, status, id, graph, after, count);
    cudaStreamUpdateCaptureDependencies / cudaStreamUpdateCaptureDependencies_ptsz(
        stream: Stream, after: *mut usize, count: usize, flags: u32
    ) => cuStreamUpdateCaptureDependencies(stream, after, count, flags);
}

ptsz! {
    cudaStreamGetCaptureInfo_v3 / cudaStreamGetCaptureInfo_v3_ptsz(
        stream: Stream, status: *mut u32, id: *mut u64, graph: *mut usize, after: *mut *const usize,
        edges: *mut *const c_void, count: *mut usize
    ) = info;
}

/// A question about the status alone is the older function's, which more drivers have.
unsafe fn info(
    stream: Stream,
    status: *mut u32,
    id: *mut u64,
    graph: *mut usize,
    after: *mut *const usize,
    edges: *mut *const c_void,
    count: *mut usize,
) -> Result<(), u32> {
    let driver = enter()?;
    let is_status = graph.is_null() && after.is_null() && edges.is_null() && count.is_null();
    // SAFETY: cudaStreamGetCaptureInfo demands that `status` may be written, and that the other
    // places are null or may be. All are passed on unread.
    unsafe {
        if is_status {
            driver.cuStreamGetCaptureInfo(stream, status, id)
        } else {
            driver.cuStreamGetCaptureInfo_v3(stream, status, id, graph, after, edges, count)
        }
    }
}
