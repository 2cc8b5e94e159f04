//! Events.

use crate::calls::export::{forward, forward_ptsz};
use crate::types::Stream;

forward! {
    cudaEventCreate(event: *mut usize) => cuEventCreate(event, 0);
    cudaEventCreateWithFlags(event: *mut usize, flags: u32) => cuEventCreate(event, flags);
    cudaEventDestroy(event: usize) => cuEventDestroy_v2(event);
    cudaEventQuery(event: usize) => cuEventQuery(event);
    cudaEventSynchronize(event: usize) => cuEventSynchronize(event);
    cudaEventElapsedTime(millis: *mut f32, from: usize, to: usize) => cuEventElapsedTime(millis, from, to);
    cudaEventElapsedTime_v2(millis: *mut f32, from: usize, to: usize) => cuEventElapsedTime(millis, from, to);
}

forward_ptsz! {
    cudaEventRecord / cudaEventRecord_ptsz(event: usize, stream: Stream) => cuEventRecord(event, stream);
    cudaEventRecordWithFlags / cudaEventRecordWithFlags_ptsz(event: usize, stream: Stream, flags: u32)
        => cuEventRecordWithFlags(event, stream, flags);
}
