//! Streams that are captured: into new graphs, into graphs that are there, or for others.

use crate::api::export::{give, ptsz};
use crate::api::streams::{broken_by, resolve, stream_record};
use crate::engine::graph::{Capture, Goal};
use crate::engine::world::{World, world};
use reef_cuda_abi::codes::*;

ptsz! {
    cuStreamBeginCapture_v2 / cuStreamBeginCapture_v2_ptsz(stream: usize, mode: u32) = begin;
    cuStreamBeginCaptureToGraph / cuStreamBeginCaptureToGraph_ptsz(
        stream: usize, graph: usize, after: *const usize, edges: usize, count: usize, mode: u32
    ) = begin_into;
    cuStreamBeginRecaptureToGraph / cuStreamBeginRecaptureToGraph_ptsz(
        stream: usize, mode: u32, graph: usize, differs: usize, data: usize
    ) = begin_again;
    cuStreamBeginCaptureToCig / cuStreamBeginCaptureToCig_ptsz(stream: usize, params: usize) = begin_commands;
    cuStreamEndCapture / cuStreamEndCapture_ptsz(stream: usize, graph: *mut usize) = end;
    cuStreamEndCaptureToCig / cuStreamEndCaptureToCig_ptsz(stream: usize) = end_commands;
    cuStreamIsCapturing / cuStreamIsCapturing_ptsz(stream: usize, status: *mut u32) = is_capturing;
    cuStreamGetCaptureInfo / cuStreamGetCaptureInfo_ptsz(stream: usize, status: *mut u32, id: *mut u64) = info;
}

/// Begins a capture whose first nodes come after `tail`.
fn begin_for(is_ptsz: bool, handle: usize, goal: Goal, tail: Vec<usize>) -> u32 {
    let mut world = world();
    let id = world.number();
    let stream = match resolve(&mut world, is_ptsz, handle) {
        Ok(stream) if stream & 0xf == 1 => return CAPTURE_UNSUPPORTED,
        Ok(stream) => stream,
        Err(code) => return code,
    };
    match stream_record(&mut world, stream) {
        Err(code) => return code,
        Ok(known) if known.capture.is_some() => return ILLEGAL_STATE,
        Ok(known) => known.capture = Some((id, tail)),
    }
    world.captures.insert(id, Capture { origin: stream, goal, ..Capture::default() });
    SUCCESS
}

unsafe fn begin(is_ptsz: bool, handle: usize, _mode: u32) -> u32 {
    begin_for(is_ptsz, handle, Goal::NewGraph, Vec::new())
}

unsafe fn begin_into(
    is_ptsz: bool,
    handle: usize,
    graph: usize,
    after: *const usize,
    _edges: usize,
    count: usize,
    _mode: u32,
) -> u32 {
    if !world().graphs.contains_key(&graph) {
        return INVALID_VALUE;
    }
    // SAFETY: cuStreamBeginCaptureToGraph demands `count` nodes at `after`, and `at` is lower.
    let tail = (0..count).map(|at| unsafe { *after.add(at) }).collect();
    begin_for(is_ptsz, handle, Goal::Into(graph), tail)
}

unsafe fn begin_again(
    is_ptsz: bool,
    handle: usize,
    _mode: u32,
    graph: usize,
    _differs: usize,
    _data: usize,
) -> u32 {
    if !world().graphs.contains_key(&graph) {
        return INVALID_VALUE;
    }
    begin_for(is_ptsz, handle, Goal::Again(graph), Vec::new())
}

unsafe fn begin_commands(is_ptsz: bool, handle: usize, params: usize) -> u32 {
    if params == 0 {
        return INVALID_VALUE;
    }
    begin_for(is_ptsz, handle, Goal::Commands, Vec::new())
}

/// The capture that ends with this stream, which no stream is part of any more.
fn ended(world: &mut World, is_ptsz: bool, handle: usize) -> Result<Capture, u32> {
    let stream = resolve(world, is_ptsz, handle)?;
    let (id, tail) = stream_record(world, stream)?.capture.clone().ok_or(ILLEGAL_STATE)?;
    match world.captures.get(&id) {
        Some(capture) if capture.origin == stream => {}
        _ => return Err(CAPTURE_UNMATCHED),
    }
    let others = world.streams.values().filter_map(|stream| stream.capture.as_ref());
    let others = others.filter(|(capture, _)| *capture == id).flat_map(|(_, tail)| tail);
    let others: Vec<_> = others.copied().collect();
    let capture = world.end_capture(id).ok_or(ILLEGAL_STATE)?;
    match capture {
        Capture { is_invalid: true, .. } => Err(CAPTURE_INVALIDATED),
        capture if !capture.is_joined(&tail, &others) => Err(CAPTURE_UNJOINED),
        capture => Ok(capture),
    }
}

unsafe fn end(is_ptsz: bool, handle: usize, graph: *mut usize) -> u32 {
    let mut world = world();
    let kept = ended(&mut world, is_ptsz, handle).and_then(|capture| world.keep(capture));
    // SAFETY: cuStreamEndCapture demands that `graph` may be written; null is left out.
    unsafe { give(graph, kept.unwrap_or(0)) };
    kept.err().unwrap_or(SUCCESS)
}

/// A list of commands has no memory operations.
unsafe fn end_commands(is_ptsz: bool, handle: usize) -> u32 {
    match ended(&mut world(), is_ptsz, handle) {
        Ok(capture) if capture.nodes.iter().any(|node| node.op.kind() == 12) => INVALID_VALUE,
        Ok(_) => SUCCESS,
        Err(code) => code,
    }
}

impl World {
    /// Ends a capture, whatever comes of it.
    pub(crate) fn end_capture(&mut self, id: u64) -> Option<Capture> {
        self.streams.values_mut().for_each(|stream| {
            stream.capture.take_if(|(capture, _)| *capture == id);
        });
        self.captures.remove(&id)
    }

    /// Puts a capture's nodes where they belong; the graph that has them.
    fn keep(&mut self, capture: Capture) -> Result<usize, u32> {
        let Capture { nodes, goal, .. } = capture;
        match goal {
            Goal::NewGraph | Goal::Commands => {
                let graph = self.handle();
                self.graphs.insert(graph, nodes);
                Ok(graph)
            }
            Goal::Into(graph) => {
                self.graphs.get_mut(&graph).ok_or(INVALID_VALUE)?.extend(nodes);
                Ok(graph)
            }
            Goal::Again(graph) => {
                let new = self.handle();
                self.graphs.insert(new, nodes);
                let updated = self.update(graph, new);
                self.forget(new);
                updated.map(|()| graph).map_err(|_| RECAPTURE_FAILURE)
            }
        }
    }
}

unsafe fn is_capturing(is_ptsz: bool, stream: usize, status: *mut u32) -> u32 {
    // SAFETY: cuStreamIsCapturing demands that `status` may be written. The number's place is null,
    // which is left out.
    unsafe { info(is_ptsz, stream, status, std::ptr::null_mut()) }
}

unsafe fn info(is_ptsz: bool, handle: usize, status: *mut u32, id: *mut u64) -> u32 {
    let mut world = world();
    let stream = resolve(&mut world, is_ptsz, handle);
    if stream.is_ok_and(|stream| !broken_by(&world, stream).is_empty()) {
        return CAPTURE_IMPLICIT;
    }
    let known = match stream.and_then(|stream| stream_record(&mut world, stream)) {
        Ok(known) => known.capture.as_ref().map(|(id, _)| *id),
        Err(code) => return code,
    };
    let is_invalid = known.and_then(|id| world.captures.get(&id)).is_some_and(|of| of.is_invalid);
    // SAFETY: cuStreamGetCaptureInfo demands that `status` may be written; null is left out.
    unsafe { give(status, u32::from(known.is_some()) + u32::from(is_invalid)) };
    if let Some(known) = known {
        // SAFETY: cuStreamGetCaptureInfo demands that `id` is null or may be written; null is left
        // out.
        unsafe { give(id, known) };
    }
    SUCCESS
}
