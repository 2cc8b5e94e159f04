//! Which streams are being captured into graphs: nothing runs there, and nothing but what is meant may be put in.

use crate::own::calls::{self, Stream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Captures that have begun and not ended. Too many is harmless: it is asked then.
static OPEN: AtomicU32 = AtomicU32::new(0);
/// Whoever has it may put marks into streams of other threads.
static MARKING: Mutex<()> = Mutex::new(());

/// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED`: it has ended as well.
const INVALIDATED: u32 = 901;

fn marking() -> MutexGuard<'static, ()> {
    MARKING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Does something that no capture and no end of a stream may fall into; nothing if a capture is open.
pub(crate) fn unless_open(mark: impl FnOnce()) {
    let _lock = marking();
    if OPEN.load(Ordering::SeqCst) == 0 {
        mark();
    }
}

/// Waits until no other thread puts a mark anywhere.
pub(crate) fn settle() {
    drop(marking());
}

/// Begins a capture.
pub(crate) fn begin(real: impl FnOnce() -> u32) -> u32 {
    {
        let _lock = marking();
        OPEN.fetch_add(1, Ordering::SeqCst);
    }
    let code = real();
    if code != 0 {
        end_one();
    }
    code
}

/// Ends a capture.
pub(crate) fn end(real: impl FnOnce() -> u32) -> u32 {
    let code = real();
    if code == 0 || code == INVALIDATED {
        end_one();
    }
    code
}

fn end_one() {
    let less = |open: u32| open.checked_sub(1);
    let _ = OPEN.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
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
