//! Open captures of streams into graphs. Such a stream runs nothing, and gates are the only
//! operations that may be inserted.

use crate::driver::calls::{self, Stream};
use crate::thread;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Streams whose captures have begun and not ended. A thread that has this lock may insert marks
/// into streams of other threads.
static ORIGINS: Mutex<Vec<Origin>> = Mutex::new(Vec::new());
/// Number of open captures. A number that is too high is harmless: the driver is asked then.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED`, `…_UNJOINED`: the capture has ended as well.
const ENDED: [u32; 2] = [901, 904];

/// Origin of a capture: the context in which it began, and the names of its stream.
#[derive(Clone, Copy, Debug)]
struct Origin {
    context: usize,
    names: Names,
}

/// Stream's handle, its thread if the handle names another stream in each thread, and its context
/// if the handle names another stream in each context.
type Names = (usize, usize, usize);

fn names(stream: Stream) -> Names {
    let thread = if stream.is_own() { thread::number() } else { 0 };
    let context = if stream.is_default() { calls::context() } else { 0 };
    (stream.0, thread, context)
}

fn origins() -> MutexGuard<'static, Vec<Origin>> {
    ORIGINS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn change(change: impl FnOnce(&mut Vec<Origin>)) {
    let mut origins = origins();
    change(&mut origins);
    OPEN.store(origins.len(), Ordering::SeqCst);
}

/// Inserts a mark, during which no capture begins and no stream ends. Does nothing if a capture is
/// open.
pub(crate) fn unless_open(mark: impl FnOnce()) {
    let origins = origins();
    if origins.is_empty() {
        mark();
    }
}

pub(crate) fn is_any_open() -> bool {
    OPEN.load(Ordering::SeqCst) > 0
}

/// Waits until no other thread inserts a mark.
pub(crate) fn settle() {
    drop(origins());
}

pub(crate) fn begin(stream: Stream, real: impl FnOnce() -> u32) -> u32 {
    let names = names(stream);
    let origin = Origin { context: context_of(stream), names };
    change(|origins| origins.push(origin));
    let code = real();
    if code != 0 {
        // An earlier capture of the stream continues.
        change(|origins| {
            let last = origins.iter().rposition(|open| open.names == names);
            let _ = last.map(|at| origins.remove(at));
        });
    }
    code
}

/// Returns the context of a stream, which may be in a capture.
fn context_of(stream: Stream) -> usize {
    let mut context = 0;
    calls::with_relaxed_capture(|| context = calls::stream_context(stream));
    context
}

/// Ends a capture, unless the call fails and leaves it open.
pub(crate) fn end(stream: Stream, real: impl FnOnce() -> u32) -> u32 {
    let code = real();
    if code == 0 || !is_open_after(stream, code) {
        forget(stream);
    }
    code
}

/// Returns whether a capture is still open after the driver has refused to end it.
fn is_open_after(stream: Stream, code: u32) -> bool {
    let (mut status, mut id) = (0, 0);
    match calls::capture_info(stream.0, &mut status, &mut id) {
        Some(0) => status != 0,
        _ => !ENDED.contains(&code),
    }
}

/// Removes the captures of a stream that has ended.
pub(crate) fn forget(stream: Stream) {
    let names = names(stream);
    change(|origins| origins.retain(|open| open.names != names));
}

/// Removes the captures of a context that has ended, of whichever thread's stream.
pub(crate) fn forget_context(context: usize) {
    change(|origins| origins.retain(|open| open.context != context));
}

/// Capture that a stream is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// None: the stream runs its work.
    None,
    /// The capture of this number.
    Of(u64),
    /// The driver doesn't say, or the capture is broken: nothing may be inserted.
    Unclear,
}

/// Asks the driver, if any capture is open.
pub(crate) fn of(stream: Stream) -> Capture {
    if OPEN.load(Ordering::Relaxed) == 0 {
        return Capture::None;
    }
    let (mut status, mut id) = (0, 0);
    match calls::capture_info(stream.0, &mut status, &mut id) {
        Some(0) if status == 0 => Capture::None,
        Some(0) if status == 1 => Capture::Of(id),
        _ => Capture::Unclear,
    }
}
