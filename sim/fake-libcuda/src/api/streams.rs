//! Streams of handles, and operations that are given to them.

use super::current::current;
use crate::engine::check;
use crate::engine::op::{Op, take_effect};
use crate::engine::run::{end_at_once, is_instant};
use crate::engine::settings::setting;
use crate::engine::world::{CHANGED, Stream, World, world};
use reef_cuda_abi::codes::*;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// Held by a call that waits for room in a queue. Then every other call that gives work waits as
/// well, as in the driver.
static DRIVER: Mutex<()> = Mutex::new(());

/// True: captures end before calls that would add to them.
static CAPTURES_END: LazyLock<bool> = LazyLock::new(|| setting("REEF_FAKE_CAPTURES_END", 0) != 0);

/// True: uses of a legacy stream break the captures of blocking streams.
static LEGACY_BREAKS: LazyLock<bool> = LazyLock::new(|| setting("REEF_FAKE_LEGACY_BREAKS", 0) != 0);

fn driver() -> MutexGuard<'static, ()> {
    DRIVER.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The number of the stream that a handle means here. Its last four bits are 1 for a legacy stream,
/// 2 for a thread's own.
pub(crate) fn resolve(world: &mut World, is_ptsz: bool, handle: usize) -> Result<u64, u32> {
    match (handle, is_ptsz) {
        (0, false) | (1, _) => Ok(current(world)?.id << 40 | 1),
        (0, true) | (2, _) => {
            // SAFETY: asks for a number.
            let thread = unsafe { libc::gettid() } as u64;
            Ok(current(world)?.id << 40 | thread << 4 | 2)
        }
        (handle, _) => {
            let known = world.handles.get(&handle).copied();
            world.misuses += u64::from(known.is_none());
            known.ok_or(INVALID_HANDLE)
        }
    }
}

/// The stream's record; default streams come to be when they are first used.
pub(crate) fn stream_record(world: &mut World, stream: u64) -> Result<&mut Stream, u32> {
    if world.is_faulty {
        return Err(ILLEGAL_ADDRESS);
    }
    if stream & 0xf != 0 {
        let is_blocking = stream & 0xf == 2;
        let new = || Stream { context: stream >> 40, is_blocking, ..Stream::default() };
        return Ok(world.streams.entry(stream).or_insert_with(new));
    }
    match world.streams.get_mut(&stream) {
        Some(stream) if stream.is_detached => Err(STREAM_DETACHED),
        Some(stream) => Ok(stream),
        None => Err(INVALID_HANDLE),
    }
}

/// Gives an operation to a stream, or to the capture that the stream is part of.
pub(crate) fn give_to(is_ptsz: bool, handle: usize, op: Op) -> u32 {
    give_from(is_ptsz, handle, op, false)
}

/// As [`give_to`], of a call that names memory of the device alone if `is_inside`.
pub(crate) fn give_from(is_ptsz: bool, handle: usize, op: Op, is_inside: bool) -> u32 {
    if check::is_on() && !check::may_run(&world(), &op, is_inside) {
        return ILLEGAL_ADDRESS;
    }
    if is_instant() {
        // SAFETY: the driver demands that the memory of a copy, a fill or a launch is there until
        // it has run, which it does here.
        unsafe { take_effect(&op) };
        end_at_once(&op);
        return SUCCESS;
    }
    let _driver = driver();
    let stream = resolve(&mut world(), is_ptsz, handle);
    stream.and_then(|stream| give_resolved(stream, op)).err().unwrap_or(SUCCESS)
}

fn give_resolved(stream: u64, op: Op) -> Result<(), u32> {
    let depth = setting("REEF_FAKE_QUEUE", 1024) as usize;
    let mut world = world();
    while stream_record(&mut world, stream)?.queue.len() >= depth {
        world = CHANGED.wait(world).unwrap_or_else(|poisoned| poisoned.into_inner());
    }
    let broken = broken_by(&world, stream);
    if !broken.is_empty() {
        for capture in broken {
            invalidate(&mut world, capture);
        }
        return Err(CAPTURE_IMPLICIT);
    }
    if matches!(op, Op::Wait { .. } | Op::Write(..)) {
        world.waits += 1;
    }
    if let Some((capture, mut tail)) = stream_record(&mut world, stream)?.capture.clone() {
        let name = world.handle();
        let op = world.as_node(op).ok_or(INVALID_VALUE)?;
        let open = world.captures.get_mut(&capture).ok_or(ILLEGAL_STATE)?;
        if open.is_invalid {
            return Err(CAPTURE_INVALIDATED);
        }
        open.add(name, op, &mut tail);
        stream_record(&mut world, stream)?.capture = Some((capture, tail));
        return Ok(());
    }
    world.push(stream, op);
    CHANGED.notify_all();
    Ok(())
}

/// The captures that a use of this stream breaks, if it is a legacy one: those of its context's
/// blocking streams. Only with `REEF_FAKE_LEGACY_BREAKS=1`.
pub(crate) fn broken_by(world: &World, stream: u64) -> Vec<u64> {
    if !*LEGACY_BREAKS || stream & 0xf != 1 {
        return Vec::new();
    }
    let of = |other: &&Stream| other.is_blocking && other.context == stream >> 40;
    let captures = world.streams.values().filter(of).filter_map(|other| other.capture.as_ref());
    captures.map(|(capture, _)| *capture).collect()
}

/// Returns whether a stream is part of a capture.
///
/// `REEF_FAKE_CAPTURES_END=1`: its capture ends first, as by another thread.
pub(crate) fn is_captured(is_ptsz: bool, handle: usize) -> bool {
    let mut world = world();
    let Ok(stream) = resolve(&mut world, is_ptsz, handle) else { return false };
    let Ok(known) = stream_record(&mut world, stream) else { return false };
    let Some((id, _)) = known.capture else { return false };
    if *CAPTURES_END {
        world.end_capture(id);
    }
    !*CAPTURES_END
}

/// Waits until all of a stream has run; an error, which the capture doesn't survive, if it is being
/// captured.
pub(crate) fn wait_for(is_ptsz: bool, handle: usize) -> u32 {
    let mut world = world();
    let stream = match resolve(&mut world, is_ptsz, handle) {
        Ok(stream) => stream,
        Err(code) => return code,
    };
    match stream_record(&mut world, stream) {
        Err(code) => return code,
        Ok(Stream { capture: Some((capture, _)), .. }) => {
            let capture = *capture;
            return invalidate(&mut world, capture);
        }
        Ok(_) => {}
    }
    while !world.is_idle(stream) && !world.is_faulty {
        world = CHANGED.wait(world).unwrap_or_else(|poisoned| poisoned.into_inner());
    }
    world.release_pools();
    if world.is_faulty { ILLEGAL_ADDRESS } else { SUCCESS }
}

/// Waits until all has run.
pub(crate) fn wait_for_all(context: Option<u64>) -> u32 {
    let mut world = world();
    while !world.is_all_idle(context) && !world.is_faulty {
        world = CHANGED.wait(world).unwrap_or_else(|poisoned| poisoned.into_inner());
    }
    world.release_pools();
    if world.is_faulty { ILLEGAL_ADDRESS } else { SUCCESS }
}

/// Invalidates a capture by a call that it doesn't allow.
pub(crate) fn invalidate(world: &mut World, capture: u64) -> u32 {
    if let Some(open) = world.captures.get_mut(&capture) {
        open.is_invalid = true;
    }
    CAPTURE_UNSUPPORTED
}

/// The device that a stream is of.
pub(crate) fn device_of(is_ptsz: bool, handle: usize) -> Result<usize, u32> {
    let mut world = world();
    let stream = resolve(&mut world, is_ptsz, handle)?;
    let context = stream_record(&mut world, stream)?.context;
    let found = world.contexts.values().find(|known| known.id == context);
    found.map(|context| context.device).ok_or(INVALID_CONTEXT)
}
