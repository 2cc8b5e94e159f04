//! Records of contexts and streams by their handles.
//!
//! Names are numbers that the driver never gives twice, or handles where it has no numbers (before
//! CUDA 12).

use super::attach;
use super::capture::{self, Capture};
use super::device::joined;
use super::tree::branch::Branch;
use super::tree::context::{ContextNames, State, within};
use super::tree::stream::{Key, Stream};
use crate::driver::calls;
use crate::thread;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Records by name. A context that isn't scheduled has the number of joined devices at that time.
#[derive(Debug, Default)]
struct Records {
    contexts: HashMap<u64, Result<&'static Branch, u64>>,
    streams: HashMap<Key, &'static Stream>,
}

/// Never locked during a call of the driver.
static RECORDS: LazyLock<RwLock<Records>> = LazyLock::new(RwLock::default);
/// Locked while a record is added.
static ADDING: Mutex<()> = Mutex::new(());
/// Last result of a thread: the number of joined devices, the name, and the stream. It has no
/// destructor.
type CachedLookup = (u64, Key, Option<&'static Stream>);

thread_local! {
    static CACHE: [Cell<CachedLookup>; 4] = const { [const { Cell::new((u64::MAX, Key(0, 0), None)) }; 4] };
}

fn read() -> RwLockReadGuard<'static, Records> {
    RECORDS.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Records> {
    RECORDS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a stream's name: its number, or on a driver without numbers its handle, with the context
/// for a default stream.
fn key(stream: calls::Stream) -> Key {
    let mut id = 0;
    if calls::stream_id(stream.0, &mut id) == Some(0) {
        return Key(id, 0);
    }
    match stream.0 {
        1 => Key(calls::context() as u64, 1),
        2 => Key(calls::context() as u64, thread::number() << 2 | 2),
        handle => Key(handle as u64, 3),
    }
}

/// Returns a context's name: its number, or its handle.
fn name(context: usize) -> u64 {
    let mut id = 0;
    if calls::context_id(context, &mut id) == Some(0) { id } else { context as u64 }
}

/// Returns a scheduled stream that is not part of a capture. The first one of a device joins it.
/// `None`: pass the call on.
#[inline]
pub(crate) fn stream(stream: calls::Stream) -> Option<&'static Stream> {
    let (key, round) = (key(stream), joined());
    CACHE.with(|cells| {
        let cell = &cells[key.0 as usize % cells.len()];
        let (when, of, found) = cell.get();
        let is_it = of == key && found.map_or(when == round, |found| found.is(key));
        if is_it {
            return found;
        }
        let found = search(stream, key);
        cell.set((round, key, found));
        found
    })
}

/// Returns a stream that is part of a capture, by its handle: the driver breaks a capture whose
/// stream is asked for its number or its flags, in every mode (driver 580).
///
/// Of several with this handle, which only threads' own streams have, any serves: they share the
/// context and its gate, and nothing that is captured is counted as work.
#[cold]
pub(crate) fn in_capture(stream: calls::Stream) -> Option<&'static Stream> {
    calls::with_relaxed_capture(|| {
        let context = calls::stream_context(stream);
        let branch = find_or_take(context, || via(stream, context))?;
        let known = by_handle(branch, stream);
        known.or_else(|| take(branch, captured_key(stream), stream))
    })
}

fn by_handle(branch: &'static Branch, stream: calls::Stream) -> Option<&'static Stream> {
    branch.streams().find(|it| it.is_live() && it.handle() == stream.0)
}

/// Returns the name of a stream that was seen in captures alone.
fn captured_key(stream: calls::Stream) -> Key {
    Key(stream.0 as u64, 3)
}

#[cold]
fn search(stream: calls::Stream, key: Key) -> Option<&'static Stream> {
    if let Some(known) = find_key(key) {
        return Some(known);
    }
    let context = calls::stream_context(stream);
    take(find_or_take(context, || via(stream, context))?, key, stream)
}

fn take(branch: &'static Branch, key: Key, stream: calls::Stream) -> Option<&'static Stream> {
    let _lock = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = find_key(key) {
        return Some(known); // another thread was faster
    }
    let taken = branch.add(key, stream.0)?;
    write().streams.insert(key, taken);
    Some(taken)
}

fn find_key(key: Key) -> Option<&'static Stream> {
    read().streams.get(&key).copied().filter(|stream| stream.is(key))
}

/// Returns the context in which calls for this one's streams are made: a green one may be current
/// in one thread only.
fn via(stream: calls::Stream, context: usize) -> usize {
    let (mut primary, mut green) = (0, 0);
    let code = calls::stream_contexts(stream.0, &mut primary, &mut green);
    if code == Some(0) && green != 0 { primary } else { context }
}

/// Returns a stream, if it is scheduled already.
pub(crate) fn find(stream: calls::Stream) -> Option<&'static Stream> {
    if capture::of(stream) != Capture::None {
        return by_handle(find_context(calls::stream_context(stream))?, stream);
    }
    find_key(key(stream)).or_else(|| find_key(captured_key(stream)))
}

/// Returns a context, if it is scheduled already.
pub(crate) fn find_context(handle: usize) -> Option<&'static Branch> {
    let name = name(handle);
    read().contexts.get(&name)?.ok()
}

/// Returns the current context. Joins its device if necessary.
pub(crate) fn current() -> Option<&'static Branch> {
    context(calls::context())
}

/// Returns a context by its handle. Joins its device if necessary.
pub(crate) fn context(handle: usize) -> Option<&'static Branch> {
    find_or_take(handle, || handle)
}

fn find_or_take(handle: usize, via: impl FnOnce() -> usize) -> Option<&'static Branch> {
    if handle == 0 {
        return None;
    }
    let (name, round) = (name(handle), joined());
    let known = || match read().contexts.get(&name) {
        Some(Err(before)) if *before != round => None,
        known => known.map(|known| known.ok()),
    };
    if let Some(known) = known() {
        return known;
    }
    let _lock = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known() {
        return known; // another thread was faster
    }
    let via = via();
    let taken = within(via, || {
        let (device, ordinal) = attach::device()?;
        let primary = if is_primary(handle, ordinal) { ordinal } else { -1 };
        Branch::take(device, ContextNames { name, handle, via, primary })
    });
    write().contexts.insert(name, taken.ok_or(round));
    taken
}

/// Returns whether a context is its device's primary one: a reference to that has the same handle.
fn is_primary(context: usize, ordinal: i32) -> bool {
    let (mut flags, mut is_active, mut primary) = (0, 0, 0);
    let state = calls::primary_state(ordinal, &mut flags, &mut is_active);
    if state != Some(0) || is_active == 0 || calls::retain_primary(&mut primary, ordinal) != Some(0)
    {
        return false;
    }
    let _ = calls::release_primary(ordinal);
    primary == context
}

/// Returns the primary context of a device, if it is scheduled.
pub(crate) fn find_primary(ordinal: i32) -> Option<&'static Branch> {
    read().contexts.values().flatten().copied().find(|it| it.context.is_primary_of(ordinal))
}

/// Forgets a stream whose handle is about to become invalid. No thread uses the handle from now on.
pub(crate) fn forget(stream: &'static Stream) {
    stream.end();
    let mut known = write();
    known.streams.remove(&stream.key());
    // It may have another name, from a capture.
    if let Some(same) = known.streams.remove(&Key(stream.handle() as u64, 3)) {
        same.end();
    }
}

/// Forgets a context and all its streams, whose handles are invalid now.
pub(crate) fn forget_context(branch: &'static Branch) {
    branch.streams().filter(|stream| stream.is_live()).for_each(forget);
    write().contexts.remove(&branch.context.name());
    branch.context.set(State::Gone);
}

/// Returns whether streams wait at this address, of any context.
pub(crate) fn is_gate(address: u64) -> bool {
    read().contexts.values().flatten().any(|it| it.context.gate() == address)
}
