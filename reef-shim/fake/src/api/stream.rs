//! Streams, and waits and writes of memory words in them.

use super::code::*;
use super::context::current;
use super::export::{give, plain, twin};
use super::streams::{give_to, invalidate, known, resolve, wait_for};
use crate::engine::op::Op;
use crate::engine::world::{CHANGED, Stream, world};

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;

plain! {
    cuStreamCreate(stream: *mut usize, flags: u32) = create;
    cuStreamCreateWithPriority(stream: *mut usize, flags: u32, priority: i32) = create_with;
    cuStreamDestroy_v2(stream: usize) = destroy;
    cuThreadExchangeStreamCaptureMode(mode: *mut u32) = exchange_mode;
}

twin! {
    cuStreamSynchronize / cuStreamSynchronize_ptsz(stream: usize) = synchronize;
    cuStreamQuery / cuStreamQuery_ptsz(stream: usize) = query;
    cuStreamWaitValue32_v2 / cuStreamWaitValue32_v2_ptsz(stream: usize, at: usize, value: u32, flags: u32) = wait_value;
    cuStreamWriteValue32_v2 / cuStreamWriteValue32_v2_ptsz(stream: usize, at: usize, value: u32, flags: u32) = write_value;
    cuLaunchHostFunc / cuLaunchHostFunc_ptsz(stream: usize, function: extern "C" fn(usize), data: usize) = host;
}

unsafe fn create(stream: *mut usize, flags: u32) -> u32 {
    let Some(context) = current() else { return INVALID_CONTEXT };
    let mut world = world();
    let handle = world.handle();
    let is_blocking = flags & NON_BLOCKING == 0;
    world.streams.insert(handle as u64, Stream { context, is_blocking, ..Stream::default() });
    // SAFETY: the caller's promise.
    unsafe { give(stream, handle) };
    SUCCESS
}

unsafe fn create_with(stream: *mut usize, flags: u32, _priority: i32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { create(stream, flags) }
}

/// What it has still runs: here by waiting for it.
unsafe fn destroy(stream: usize) -> u32 {
    let code = wait_for(false, stream);
    if code == SUCCESS && stream > 2 {
        world().streams.remove(&(stream as u64));
    }
    code
}

unsafe fn synchronize(is_twin: bool, stream: usize) -> u32 {
    wait_for(is_twin, stream)
}

unsafe fn query(is_twin: bool, handle: usize) -> u32 {
    let mut world = world();
    let stream = match resolve(is_twin, handle) {
        Ok(stream) => stream,
        Err(code) => return code,
    };
    match known(&mut world, stream) {
        Err(code) => code,
        Ok(Stream { capture: Some((capture, _)), .. }) => {
            let capture = *capture;
            invalidate(&mut world, capture)
        }
        Ok(stream) if stream.queue.is_empty() => SUCCESS,
        Ok(_) => NOT_READY,
    }
}

unsafe fn wait_value(is_twin: bool, stream: usize, at: usize, value: u32, flags: u32) -> u32 {
    if !is_registered(at) {
        return INVALID_VALUE;
    }
    give_to(is_twin, stream, Op::Wait { at, value, flags })
}

unsafe fn write_value(is_twin: bool, stream: usize, at: usize, value: u32, _flags: u32) -> u32 {
    if !is_registered(at) {
        return INVALID_VALUE;
    }
    give_to(is_twin, stream, Op::Write(at, value))
}

fn is_registered(at: usize) -> bool {
    let world = world();
    let within = |(&from, &bytes): (&usize, &usize)| (from..from + bytes).contains(&at);
    let allocated =
        world.memory.iter().any(|(&from, words)| (from..from + 8 * words.len()).contains(&at));
    allocated || world.registered.iter().any(within)
}

unsafe fn host(is_twin: bool, stream: usize, function: extern "C" fn(usize), data: usize) -> u32 {
    give_to(is_twin, stream, Op::Host(function, data))
}

unsafe fn exchange_mode(mode: *mut u32) -> u32 {
    // SAFETY: the caller's promise. Every mode is the same here.
    unsafe { give(mode, 0) };
    CHANGED.notify_all();
    SUCCESS
}
