//! Events, in streams and in captures.

use super::current::current;
use super::export::{give, plain, ptsz};
use super::streams::{give_to, resolve, stream_record};
use crate::engine::op::Op;
use crate::engine::settings::setting;
use crate::engine::world::{CHANGED, Event, world};
use reef_cuda_abi::codes::*;

plain! {
    cuEventCreate(event: *mut usize, flags: u32) = create;
    cuEventDestroy_v2(event: usize) = destroy;
    cuEventQuery(event: usize) = query;
    cuEventSynchronize(event: usize) = synchronize;
    cuEventElapsedTime(millis: *mut f32, from: usize, to: usize) = elapsed;
}

ptsz! {
    cuEventRecord / cuEventRecord_ptsz(event: usize, stream: usize) = record;
    cuStreamWaitEvent / cuStreamWaitEvent_ptsz(stream: usize, event: usize, flags: u32) = wait;
}

unsafe fn create(event: *mut usize, _flags: u32) -> u32 {
    let mut world = world();
    let context = match current(&mut world) {
        Ok(context) => context.id,
        Err(code) => return code,
    };
    let handle = world.handle();
    world.events.insert(handle, Event { context, ..Event::default() });
    // SAFETY: cuEventCreate demands that `event` may be written; null is left out.
    unsafe { give(event, handle) };
    SUCCESS
}

unsafe fn destroy(event: usize) -> u32 {
    if world().events.remove(&event).is_some() { SUCCESS } else { INVALID_HANDLE }
}

unsafe fn query(event: usize) -> u32 {
    match world().events.get(&event) {
        None => INVALID_HANDLE,
        Some(Event { captured: Some(_), .. }) => 907,
        Some(event) if event.is_reached(event.recorded) => SUCCESS,
        Some(_) => NOT_READY,
    }
}

/// Time between two records. One millisecond between any two, if kernels take no time.
unsafe fn elapsed(millis: *mut f32, from: usize, to: usize) -> u32 {
    for event in [from, to] {
        // SAFETY: no addresses.
        match unsafe { query(event) } {
            SUCCESS => {}
            code => return code,
        }
    }
    let world = world();
    let times = [from, to].map(|event| world.times.get(&event).copied());
    let passed = match times {
        [Some(from), Some(to)] if setting("REEF_FAKE_BLOCK_NS", 0) > 0 => {
            to.saturating_sub(from) as f32 / 1e6
        }
        _ => 1.0,
    };
    // SAFETY: cuEventElapsedTime demands that `millis` may be written; null is left out.
    unsafe { give(millis, passed) };
    SUCCESS
}

unsafe fn synchronize(event: usize) -> u32 {
    let mut world = world();
    loop {
        match world.events.get(&event) {
            None => return INVALID_HANDLE,
            Some(Event { captured: Some(_), .. }) => return 907,
            Some(event) if event.is_reached(event.recorded) => return SUCCESS,
            Some(_) => {
                world = CHANGED.wait(world).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
        }
    }
}

unsafe fn record(is_ptsz: bool, event: usize, stream: usize) -> u32 {
    let mut world = world();
    let resolved = match resolve(&mut world, is_ptsz, stream) {
        Ok(resolved) => resolved,
        Err(code) => return code,
    };
    let (context, captured) = match stream_record(&mut world, resolved) {
        Err(code) => return code,
        Ok(stream) => (stream.context, stream.capture.clone()),
    };
    let Some(known) = world.events.get_mut(&event).filter(|event| event.context == context) else {
        return INVALID_HANDLE;
    };
    known.captured = captured;
    if known.captured.is_some() {
        return SUCCESS;
    }
    known.recorded += 1;
    known.open.push(known.recorded);
    let times = known.recorded;
    drop(world);
    let code = give_to(is_ptsz, stream, Op::Record { event, times });
    if code != SUCCESS {
        self::world().recorded(event, times);
    }
    code
}

unsafe fn wait(is_ptsz: bool, stream: usize, event: usize, _flags: u32) -> u32 {
    let mut world = world();
    let resolved = match resolve(&mut world, is_ptsz, stream) {
        Ok(resolved) => resolved,
        Err(code) => return code,
    };
    let Some(Event { recorded, captured, .. }) = world.events.get(&event) else {
        return INVALID_HANDLE;
    };
    let (times, captured) = (*recorded, captured.clone());
    let Some((capture, nodes)) = captured else {
        drop(world);
        return give_to(is_ptsz, stream, Op::WaitFor { event, times });
    };
    match stream_record(&mut world, resolved) {
        Err(code) => code,
        Ok(stream) => {
            let (_, tail) = stream.capture.get_or_insert_with(|| (capture, Vec::new()));
            tail.extend(nodes.into_iter().filter(|node| !tail.contains(node)).collect::<Vec<_>>());
            SUCCESS
        }
    }
}
