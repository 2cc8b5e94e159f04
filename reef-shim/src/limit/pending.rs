//! Allocations that end in a stream: they stay charged until the stream has come so far.

use super::ledger::Charge;
use crate::own::calls::{self, Stream};
use std::sync::{Mutex, MutexGuard};

/// `CU_EVENT_DISABLE_TIMING`.
const WITHOUT_TIME: u32 = 2;

/// An end that is on its way, and the event behind it.
#[derive(Debug)]
struct Pending {
    event: usize,
    charge: Charge,
}

static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());

fn pending() -> MutexGuard<'static, Vec<Pending>> {
    PENDING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Notes that an allocation ends where this stream is now. Without an event nobody knows when that is, so it stays
/// charged until its context ends.
pub(crate) fn add(stream: Stream, charge: Charge) {
    let mut event = 0;
    if calls::create_event(&mut event, WITHOUT_TIME) == Some(0)
        && calls::record_event(event, stream.0) == Some(0)
    {
        pending().push(Pending { event, charge });
    }
}

/// Gives back what has ended meanwhile.
pub(crate) fn settle() {
    pending().retain(|Pending { event, charge }| {
        let has_ended = calls::query_event(*event) == Some(0);
        if has_ended {
            charge.device.give_back(charge.bytes);
            let _ = calls::destroy_event(*event); // it is ours, and has been reached
        }
        !has_ended
    });
}

/// Gives back what ended with a context, and its events with it.
pub(crate) fn end_context(context: usize) {
    pending().retain(|Pending { charge, .. }| {
        let has_ended = charge.context == context;
        if has_ended {
            charge.device.give_back(charge.bytes);
        }
        !has_ended
    });
}
