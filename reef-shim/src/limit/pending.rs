//! What ends in a stream: it stays charged until the stream has come so far.

use crate::driver::calls::{self, Stream};
use std::sync::{Mutex, MutexGuard};

/// `CU_EVENT_DISABLE_TIMING`.
const WITHOUT_TIME: u32 = 2;

/// Takes something out of the books.
pub(crate) type End = Box<dyn FnOnce() + Send>;

/// An end that is on its way, the event behind it, and the event's context.
struct Pending {
    event: usize,
    context: usize,
    end: End,
}

static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());

fn pending() -> MutexGuard<'static, Vec<Pending>> {
    PENDING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Notes that something ends where this stream is now. An event belongs to a context, which has to
/// be the stream's. Without an event nobody knows when that is, so it stays charged until the
/// stream's context ends.
pub(crate) fn add(stream: Stream, end: impl FnOnce() + Send + 'static) {
    let context = calls::stream_context(stream);
    let mut event = 0;
    calls::in_context(context, || {
        let is_made = calls::create_event(&mut event, WITHOUT_TIME) == Some(0);
        if is_made && calls::record_event(event, stream.0) != Some(0) {
            let _ = calls::destroy_event(event); // it is ours, and nothing waits for it
            event = 0;
        }
    });
    pending().push(Pending { event, context, end: Box::new(end) });
}

/// Ends what has been reached. The lock is not held meanwhile: ends have locks of their own.
fn end_all(is_over: impl Fn(&Pending) -> bool) {
    let over: Vec<_> = pending().extract_if(.., |pending| is_over(pending)).collect();
    over.into_iter().for_each(|pending| (pending.end)());
}

/// Counts what has ended meanwhile.
pub(crate) fn settle() {
    end_all(|Pending { event, .. }| {
        let has_ended = *event != 0 && calls::query_event(*event) == Some(0);
        if has_ended {
            let _ = calls::destroy_event(*event); // it is ours, and has been reached
        }
        has_ended
    });
}

/// Counts what ended with a context, and its events with it.
pub(crate) fn end_context(context: usize) {
    end_all(|pending| pending.context == context);
}
