//! Streams, and waits and writes of memory words in them.

use super::current::current;
use super::export::{give, plain, ptsz};
use super::streams::{give_to, invalidate, resolve, stream_record, wait_for};
use crate::engine::context::{Context, Kind, primary};
use crate::engine::op::Op;
use crate::engine::settings::setting;
use crate::engine::world::{CHANGED, Stream, world};
use reef_cuda_abi::codes::*;

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;

plain! {
    cuStreamCreate(stream: *mut usize, flags: u32) = create;
    cuStreamCreateWithPriority(stream: *mut usize, flags: u32, priority: i32) = create_with;
    cuStreamDestroy_v2(stream: usize) = destroy;
    cuThreadExchangeStreamCaptureMode(mode: *mut u32) = exchange_mode;
}

ptsz! {
    cuStreamSynchronize / cuStreamSynchronize_ptsz(stream: usize) = synchronize;
    cuStreamQuery / cuStreamQuery_ptsz(stream: usize) = query;
    cuStreamGetId / cuStreamGetId_ptsz(stream: usize, id: *mut u64) = id;
    cuStreamGetCtx / cuStreamGetCtx_ptsz(stream: usize, context: *mut usize) = context;
    cuStreamGetCtx_v2 / cuStreamGetCtx_v2_ptsz(stream: usize, context: *mut usize, green: *mut usize) = contexts;
    cuStreamWaitValue32_v2 / cuStreamWaitValue32_v2_ptsz(stream: usize, at: usize, value: u32, flags: u32) = wait_value;
    cuStreamWriteValue32_v2 / cuStreamWriteValue32_v2_ptsz(stream: usize, at: usize, value: u32, flags: u32) = write_value;
    cuLaunchHostFunc / cuLaunchHostFunc_ptsz(stream: usize, function: extern "C" fn(usize), data: usize) = host;
}

unsafe fn create(stream: *mut usize, flags: u32) -> u32 {
    let mut world = world();
    let context = match current(&mut world) {
        Ok(context) => context.id,
        Err(code) => return code,
    };
    let is_blocking = flags & NON_BLOCKING == 0;
    let handle = world.add_stream(Stream { context, is_blocking, ..Stream::default() });
    // SAFETY: cuStreamCreate demands that `stream` may be written; null is left out.
    unsafe { give(stream, handle) };
    SUCCESS
}

unsafe fn create_with(stream: *mut usize, flags: u32, _priority: i32) -> u32 {
    // SAFETY: cuStreamCreateWithPriority demands that `stream` may be written; null is left out.
    unsafe { create(stream, flags) }
}

/// Destroys a stream without a wait: what it has still runs. A capture that began in it ends, and
/// one that it is part of is broken.
unsafe fn destroy(handle: usize) -> u32 {
    let mut world = world();
    let Some(name) = world.handles.remove(&handle) else { return INVALID_HANDLE };
    world.free.push(handle);
    let Some(stream) = world.streams.get_mut(&name) else { return INVALID_HANDLE };
    stream.is_destroyed = true;
    if let Some((capture, _)) = stream.capture.take() {
        invalidate(&mut world, capture);
        if world.captures.get(&capture).is_some_and(|capture| capture.origin == name) {
            world.end_capture(capture);
        }
    }
    world.drop_if_over(name);
    SUCCESS
}

/// Without `REEF_FAKE_IDS=0`, which plays a driver before CUDA 12.
unsafe fn id(is_ptsz: bool, handle: usize, id: *mut u64) -> u32 {
    if setting("REEF_FAKE_IDS", 1) == 0 {
        return NOT_SUPPORTED;
    }
    let mut world = world();
    let name = match resolve(&mut world, is_ptsz, handle) {
        Ok(name) => name,
        Err(code) => return code,
    };
    // The driver breaks a capture whose stream is asked for its number, in every mode (driver 580).
    let capture = world.streams.get(&name).and_then(|stream| stream.capture.as_ref());
    if let Some((capture, _)) = capture {
        let capture = *capture;
        invalidate(&mut world, capture);
        return CAPTURE_UNSUPPORTED;
    }
    // SAFETY: cuStreamGetId demands that `id` may be written; null is left out.
    unsafe { give(id, name) };
    SUCCESS
}

unsafe fn context(is_ptsz: bool, handle: usize, context: *mut usize) -> u32 {
    let mut world = world();
    let of = match resolve(&mut world, is_ptsz, handle)
        .and_then(|name| stream_record(&mut world, name))
    {
        Ok(stream) => stream.context,
        Err(code) => return code,
    };
    let Some(of) = world.handle_of(of) else { return CONTEXT_IS_DESTROYED };
    // SAFETY: cuStreamGetCtx demands that `context` may be written; null is left out.
    unsafe { give(context, of) };
    SUCCESS
}

/// Of a green context's stream: the primary context, and the green one.
unsafe fn contexts(is_ptsz: bool, handle: usize, context: *mut usize, green: *mut usize) -> u32 {
    let mut of = 0;
    // SAFETY: a place of ours.
    let code = unsafe { self::context(is_ptsz, handle, &raw mut of) };
    let known = world().contexts.get(&of).copied();
    let (of, its) = match known {
        Some(Context { kind: Kind::Green(green), device, .. }) => (primary(device), green),
        _ => (of, 0),
    };
    if code == SUCCESS {
        // SAFETY: cuStreamGetCtx_v2 demands that `context` and `green` may be written; null is left
        // out.
        unsafe {
            give(context, of);
            give(green, its);
        }
    }
    code
}

unsafe fn synchronize(is_ptsz: bool, stream: usize) -> u32 {
    wait_for(is_ptsz, stream)
}

unsafe fn query(is_ptsz: bool, handle: usize) -> u32 {
    let mut world = world();
    let stream = match resolve(&mut world, is_ptsz, handle) {
        Ok(stream) => stream,
        Err(code) => return code,
    };
    match stream_record(&mut world, stream) {
        Err(code) => code,
        Ok(Stream { capture: Some((capture, _)), .. }) => {
            let capture = *capture;
            invalidate(&mut world, capture)
        }
        Ok(stream) if stream.queue.is_empty() => SUCCESS,
        Ok(_) => NOT_READY,
    }
}

unsafe fn wait_value(is_ptsz: bool, stream: usize, at: usize, value: u32, flags: u32) -> u32 {
    match check(is_ptsz, stream, at) {
        SUCCESS => give_to(is_ptsz, stream, Op::Wait { at, value, flags }),
        code => code,
    }
}

unsafe fn write_value(is_ptsz: bool, stream: usize, at: usize, value: u32, _flags: u32) -> u32 {
    match check(is_ptsz, stream, at) {
        SUCCESS => give_to(is_ptsz, stream, Op::Write(at, value)),
        code => code,
    }
}

/// Checks that a stream may use memory.
fn check(is_ptsz: bool, stream: usize, at: usize) -> u32 {
    let mut world = world();
    let name = resolve(&mut world, is_ptsz, stream);
    let owner = match name.and_then(|name| stream_record(&mut world, name)) {
        Ok(Stream { context, .. }) => *context,
        Err(code) => return code,
    };
    let owner = world.contexts.values().find(|context| context.id == owner);
    let owner = owner.map(|context| context.owner);
    if owner.is_some() && world.is_visible(at, owner) { SUCCESS } else { INVALID_VALUE }
}

unsafe fn host(is_ptsz: bool, stream: usize, function: extern "C" fn(usize), data: usize) -> u32 {
    give_to(is_ptsz, stream, Op::Host(function, data))
}

unsafe fn exchange_mode(mode: *mut u32) -> u32 {
    // SAFETY: cuThreadExchangeStreamCaptureMode demands that `mode` may be written; null is left
    // out. Every mode is the same here.
    unsafe { give(mode, 0) };
    CHANGED.notify_all();
    SUCCESS
}
