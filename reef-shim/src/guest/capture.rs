//! Which streams are being captured into graphs: nothing runs there, and nothing but what is meant
//! may be put in.

use crate::driver::calls::{self, Stream};
use crate::thread;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Where captures have begun and not ended. Whoever has it may put marks into streams of other
/// threads.
static ORIGINS: Mutex<Vec<Origin>> = Mutex::new(Vec::new());
/// How many these are. One too many is harmless for a while: it is asked then.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED`, `…_UNJOINED`: the capture has ended as well.
const ENDED: [u32; 2] = [901, 904];

/// A stream's handle, and its thread if each has another one of that handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Origin(usize, usize);

impl Origin {
    fn of(stream: Stream) -> Self {
        Self(stream.0, if stream.is_own() { thread::number() } else { 0 })
    }
}

fn origins() -> MutexGuard<'static, Vec<Origin>> {
    ORIGINS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn change(change: impl FnOnce(&mut Vec<Origin>)) {
    let mut origins = origins();
    change(&mut origins);
    OPEN.store(origins.len(), Ordering::SeqCst);
}

/// Does something that no capture and no end of a stream may fall into; nothing if a capture is
/// open.
pub(crate) fn unless_open(mark: impl FnOnce()) {
    let origins = origins();
    if origins.is_empty() {
        mark();
    }
}

/// Waits until no other thread puts a mark anywhere.
pub(crate) fn settle() {
    drop(origins());
}

/// Begins a capture.
pub(crate) fn begin(stream: Stream, real: impl FnOnce() -> u32) -> u32 {
    let origin = Origin::of(stream);
    change(|origins| origins.push(origin));
    let code = real();
    if code != 0 {
        // One that has begun before goes on.
        change(|origins| {
            let last = origins.iter().rposition(|open| *open == origin);
            let _ = last.map(|at| origins.remove(at));
        });
    }
    code
}

/// Ends a capture, unless the call fails and leaves it open.
pub(crate) fn end(stream: Stream, real: impl FnOnce() -> u32) -> u32 {
    let code = real();
    if code == 0 || !is_open_after(stream, code) {
        forget(stream);
    }
    code
}

/// Whether a stream that the driver has refused to end the capture of still captures.
fn is_open_after(stream: Stream, code: u32) -> bool {
    let (mut status, mut id) = (0, 0);
    match calls::capture_info(stream.0, &mut status, &mut id) {
        Some(0) => status != 0,
        _ => !ENDED.contains(&code),
    }
}

/// A stream has ended, and a capture of it with it.
pub(crate) fn forget(stream: Stream) {
    let origin = Origin::of(stream);
    change(|origins| origins.retain(|open| *open != origin));
}

/// What a stream is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// Nothing: it runs what it is given.
    None,
    /// The capture of this number.
    Of(u64),
    /// The driver doesn't say, or the capture is broken: nothing may be put in.
    Unclear,
}

/// True if any capture is open. Then a stream may be part of one.
pub(crate) fn is_any_open() -> bool {
    OPEN.load(Ordering::Relaxed) != 0
}

/// Asks the driver, if any capture is open.
pub(crate) fn of(stream: Stream) -> Capture {
    if !is_any_open() {
        return Capture::None;
    }
    let (mut status, mut id) = (0, 0);
    match calls::capture_info(stream.0, &mut status, &mut id) {
        Some(0) if status == 0 => Capture::None,
        Some(0) if status == 1 => Capture::Of(id),
        _ => Capture::Unclear,
    }
}
