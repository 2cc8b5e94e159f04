//! Streams.

use crate::calls::export::{forward, forward_ptsz, ptsz};
use crate::codes::*;
use crate::state::context::enter;
use crate::types::Stream;
use std::ffi::c_void;

forward! {
    cudaStreamCreate(stream: *mut usize) => cuStreamCreate(stream, 0);
    cudaStreamCreateWithFlags(stream: *mut usize, flags: u32) => cuStreamCreate(stream, flags);
    cudaStreamCreateWithPriority(stream: *mut usize, flags: u32, priority: i32)
        => cuStreamCreateWithPriority(stream, flags, priority);
    cudaStreamDestroy(stream: usize) => cuStreamDestroy_v2(stream);
    cudaCtxResetPersistingL2Cache() => cuCtxResetPersistingL2Cache();
}

forward_ptsz! {
    cudaStreamSynchronize / cudaStreamSynchronize_ptsz(stream: Stream) => cuStreamSynchronize(stream);
    cudaStreamQuery / cudaStreamQuery_ptsz(stream: Stream) => cuStreamQuery(stream);
    cudaStreamWaitEvent / cudaStreamWaitEvent_ptsz(stream: Stream, event: usize, flags: u32)
        => cuStreamWaitEvent(stream, event, flags);
    cudaStreamGetFlags / cudaStreamGetFlags_ptsz(stream: Stream, flags: *mut u32) => cuStreamGetFlags(stream, flags);
    cudaStreamGetPriority / cudaStreamGetPriority_ptsz(stream: Stream, priority: *mut i32)
        => cuStreamGetPriority(stream, priority);
    cudaStreamGetId / cudaStreamGetId_ptsz(stream: Stream, id: *mut u64) => cuStreamGetId(stream, id);
    cudaStreamGetDevice / cudaStreamGetDevice_ptsz(stream: Stream, device: *mut i32)
        => cuStreamGetDevice(stream, device);
    cudaStreamGetAttribute / cudaStreamGetAttribute_ptsz(stream: Stream, attribute: u32, value: *mut c_void)
        => cuStreamGetAttribute(stream, attribute, value);
    cudaStreamSetAttribute / cudaStreamSetAttribute_ptsz(stream: Stream, attribute: u32, value: *const c_void)
        => cuStreamSetAttribute(stream, attribute, value);
    cudaStreamCopyAttributes / cudaStreamCopyAttributes_ptsz(to: Stream, from: Stream)
        => cuStreamCopyAttributes(to, from);
    cudaStreamAttachMemAsync / cudaStreamAttachMemAsync_ptsz(stream: Stream, at: u64, bytes: usize, flags: u32)
        => cuStreamAttachMemAsync(stream, at, bytes, flags);
}

ptsz! {
    cudaStreamAddCallback / cudaStreamAddCallback_ptsz(
        stream: Stream, callback: usize, data: usize, flags: u32
    ) = add_callback;
}

/// `cudaStreamCallback_t`.
type Function = unsafe extern "C" fn(Stream, u32, usize);

/// A callback that a stream will reach.
struct Callback {
    function: Function,
    stream: Stream,
    data: usize,
}

/// A callback is a host function that is told the stream and a code.
unsafe fn add_callback(
    stream: Stream,
    callback: usize,
    data: usize,
    flags: u32,
) -> Result<(), u32> {
    let driver = enter()?;
    if callback == 0 || flags != 0 {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not zero, and cudaStreamAddCallback demands the address of a `cudaStreamCallback_t`,
    // which is `Function`.
    let function = unsafe { std::mem::transmute::<usize, Function>(callback) };
    let callback = Box::into_raw(Box::new(Callback { function, stream, data }));
    let (run, at) = (run as unsafe extern "C" fn(*mut Callback) as usize, callback as usize);
    // SAFETY: a function, and its argument, which it owns.
    unsafe { driver.cuLaunchHostFunc(stream, run, at) }.inspect_err(|_| {
        // SAFETY: the driver has refused, so that nothing else has it.
        drop(unsafe { Box::from_raw(callback) });
    })
}

unsafe extern "C" fn run(callback: *mut Callback) {
    // SAFETY: made by `add_callback`, and run once.
    let Callback { function, stream, data } = *unsafe { Box::from_raw(callback) };
    // SAFETY: the program's function and data.
    unsafe { function(stream, SUCCESS, data) };
}
