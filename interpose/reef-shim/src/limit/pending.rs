//! Ends of allocations in streams: an allocation stays charged until the stream has reached its
//! end.

use crate::driver::calls::{self, Stream};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// `CU_EVENT_DISABLE_TIMING`.
const WITHOUT_TIME: u32 = 2;

/// Function that gives an allocation back.
pub(crate) type End = Box<dyn FnOnce() + Send>;

/// Pending end, with the event after it and the event's context.
struct Pending {
    event: usize,
    context: usize,
    /// Greater than those of all earlier ones.
    number: u64,
    end: End,
}

/// Number of the last pending end.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Interval at which events are queried during a wait.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_micros(200);

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
    let number = LAST.fetch_add(1, SeqCst) + 1;
    pending().push(Pending { event, context, number, end: Box::new(end) });
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

/// Points of streams, by an event each that is not known to be reached.
pub(crate) struct Points(Vec<Option<usize>>);

impl Points {
    /// Records the current points of streams, each with its context. A stream that is captured has
    /// none.
    pub(crate) fn record(streams: &[(Stream, usize)]) -> Self {
        let record = |(stream, context): &(Stream, usize)| {
            calls::in_context(*context, || {
                if calls::is_capturing(*stream) { None } else { record(*stream) }
            })
        };
        Self(streams.iter().map(record).collect())
    }

    /// Returns the indices of the streams that have reached their points since the last call.
    pub(crate) fn poll(&mut self) -> Vec<usize> {
        let is_reached = |event: &mut usize| calls::query_event(*event) == Some(0);
        let take = |(at, event): (usize, &mut Option<usize>)| {
            let _ = event.take_if(is_reached).map(calls::destroy_event)?; // it is ours
            Some(at)
        };
        self.0.iter_mut().enumerate().filter_map(take).collect()
    }

    /// Returns whether no stream has yet to reach its point.
    pub(crate) fn are_reached(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

impl Drop for Points {
    fn drop(&mut self) {
        let _ = self.0.drain(..).flatten().map(calls::destroy_event).count(); // ours
    }
}

/// Runs the ends that have been reached, without the lock, because they take locks of their own.
/// Returns whether there were any.
fn end_all(is_over: impl Fn(&Pending) -> bool) -> bool {
    let over: Vec<_> = pending().extract_if(.., |pending| is_over(pending)).collect();
    let were_any = !over.is_empty();
    over.into_iter().for_each(|pending| (pending.end)());
    were_any
}

/// Runs the ends that streams have reached. Returns whether there were any.
pub(crate) fn settle() -> bool {
    end_all(|Pending { event, .. }| {
        let has_ended = *event != 0 && calls::query_event(*event) == Some(0);
        if has_ended {
            let _ = calls::destroy_event(*event); // it is ours, and has been reached
        }
        has_ended
    })
}

/// Returns whether streams have yet to reach ends.
pub(crate) fn are_any() -> bool {
    pending().iter().any(|pending| pending.event != 0)
}

/// Returns the number of the last pending end.
pub(crate) fn last() -> u64 {
    LAST.load(SeqCst)
}

/// Runs the ends of a context that has ended, with its events: those up to this number. Later ones
/// are of another context that has its handle.
pub(crate) fn end_context(context: usize, last: u64) {
    let _ = end_all(|pending| pending.context == context && pending.number <= last); // any or none
}
