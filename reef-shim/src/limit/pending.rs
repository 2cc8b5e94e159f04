//! Ends of allocations in streams: an allocation stays charged until the stream has reached its
//! end.

use crate::driver::calls::{self, Stream};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// `CU_EVENT_DISABLE_TIMING`.
const WITHOUT_TIME: u32 = 2;

/// Function that gives an allocation back.
pub(crate) type End = Box<dyn FnOnce() + Send>;

/// Pending end, with the event after it and the event's context.
struct Pending {
    event: usize,
    context: usize,
    end: End,
}

/// Interval at which events are queried during a wait.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());

fn pending() -> MutexGuard<'static, Vec<Pending>> {
    PENDING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Adds an end at the current point of a stream. An event belongs to a context, which has to be the
/// stream's. Without an event the time of the end is unknown, so the allocation stays charged until
/// the stream's context ends.
pub(crate) fn add(stream: Stream, end: impl FnOnce() + Send + 'static) {
    let context = calls::stream_context(stream);
    let event = calls::in_context(context, || record(stream)).unwrap_or(0);
    pending().push(Pending { event, context, end: Box::new(end) });
}

/// Records an event at the current point of a stream of the current context.
fn record(stream: Stream) -> Option<usize> {
    let mut event = 0;
    let is_made = calls::create_event(&mut event, WITHOUT_TIME) == Some(0);
    if is_made && calls::record_event(event, stream.0) != Some(0) {
        let _ = calls::destroy_event(event); // it is ours, and nothing waits for it
        event = 0;
    }
    (event != 0).then_some(event)
}

/// Waits until streams have reached their current points, at most for `timeout`. Returns which of
/// them have. A stream comes with its context.
pub(crate) fn wait(streams: &[(Stream, usize)], timeout: Duration) -> Vec<bool> {
    let begin = Instant::now();
    let record = |(stream, context): &(Stream, usize)| {
        calls::in_context(*context, || {
            if calls::is_capturing(*stream) { None } else { record(*stream) }
        })
    };
    let mut events: Vec<_> = streams.iter().map(record).collect();
    let mut reached = vec![false; streams.len()];
    loop {
        for (event, reached) in events.iter_mut().zip(&mut reached) {
            if event.is_some_and(|event| calls::query_event(event) == Some(0)) {
                *reached = true;
                let _ = event.take().map(calls::destroy_event);
            }
        }
        if events.iter().all(Option::is_none) || begin.elapsed() >= timeout {
            break;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    for event in events.into_iter().flatten() {
        let _ = calls::destroy_event(event); // it is ours
    }
    reached
}

/// Runs the ends that have been reached, without the lock, because they take locks of their own.
fn end_all(is_over: impl Fn(&Pending) -> bool) {
    let over: Vec<_> = pending().extract_if(.., |pending| is_over(pending)).collect();
    over.into_iter().for_each(|pending| (pending.end)());
}

/// Runs the ends that streams have reached.
pub(crate) fn settle() {
    end_all(|Pending { event, .. }| {
        let has_ended = *event != 0 && calls::query_event(*event) == Some(0);
        if has_ended {
            let _ = calls::destroy_event(*event); // it is ours, and has been reached
        }
        has_ended
    });
}

/// Runs the ends of a context that has ended, with its events.
pub(crate) fn end_context(context: usize) {
    end_all(|pending| pending.context == context);
}
