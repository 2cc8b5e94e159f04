//! Streams that are captured into graphs.

use crate::api::code::*;
use crate::api::export::{give, twin};
use crate::api::streams::{known, resolve};
use crate::engine::graph::Capture;
use crate::engine::world::world;

twin! {
    cuStreamBeginCapture_v2 / cuStreamBeginCapture_v2_ptsz(stream: usize, mode: u32) = begin;
    cuStreamEndCapture / cuStreamEndCapture_ptsz(stream: usize, graph: *mut usize) = end;
    cuStreamIsCapturing / cuStreamIsCapturing_ptsz(stream: usize, status: *mut u32) = is_capturing;
    cuStreamGetCaptureInfo / cuStreamGetCaptureInfo_ptsz(stream: usize, status: *mut u32, id: *mut u64) = info;
}

unsafe fn begin(is_twin: bool, handle: usize, _mode: u32) -> u32 {
    let mut world = world();
    let id = world.number();
    let stream = match resolve(is_twin, handle) {
        Ok(stream) if stream & 0xf == 1 => return CAPTURE_UNSUPPORTED,
        Ok(stream) => stream,
        Err(code) => return code,
    };
    match known(&mut world, stream) {
        Err(code) => return code,
        Ok(known) if known.capture.is_some() => return ILLEGAL_STATE,
        Ok(known) => known.capture = Some((id, Vec::new())),
    }
    world.captures.insert(id, Capture { origin: stream, ..Capture::default() });
    SUCCESS
}

unsafe fn end(is_twin: bool, handle: usize, graph: *mut usize) -> u32 {
    let mut world = world();
    let stream = match resolve(is_twin, handle) {
        Ok(stream) => stream,
        Err(code) => return code,
    };
    let id = match known(&mut world, stream) {
        Err(code) => return code,
        Ok(known) => known.capture.as_ref().map(|(id, _)| *id),
    };
    let Some(id) = id else { return ILLEGAL_STATE };
    match world.captures.get(&id) {
        Some(capture) if capture.origin == stream => {}
        _ => return 908,
    }
    world.streams.values_mut().for_each(|stream| {
        stream.capture.take_if(|(capture, _)| *capture == id);
    });
    let Some(capture) = world.captures.remove(&id) else { return ILLEGAL_STATE };
    let handle = world.handle();
    // SAFETY: the caller's promise.
    unsafe { give(graph, if capture.is_invalid { 0 } else { handle }) };
    if capture.is_invalid {
        return CAPTURE_INVALIDATED;
    }
    world.graphs.insert(handle, capture.nodes);
    SUCCESS
}

unsafe fn is_capturing(is_twin: bool, stream: usize, status: *mut u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { info(is_twin, stream, status, std::ptr::null_mut()) }
}

unsafe fn info(is_twin: bool, handle: usize, status: *mut u32, id: *mut u64) -> u32 {
    let mut world = world();
    let known = match resolve(is_twin, handle).and_then(|stream| known(&mut world, stream)) {
        Ok(known) => known.capture.as_ref().map(|(id, _)| *id),
        Err(code) => return code,
    };
    let is_invalid = known.and_then(|id| world.captures.get(&id)).is_some_and(|of| of.is_invalid);
    // SAFETY: the caller's promise.
    unsafe { give(status, u32::from(known.is_some()) + u32::from(is_invalid)) };
    if let Some(known) = known {
        // SAFETY: the caller's promise.
        unsafe { give(id, known) };
    }
    SUCCESS
}
