//! Signals: words that packets wait for and set, with room for times and an event to raise.

use crate::access::Unmapped;
use crate::clock::Clock;
use crate::events::Events;
use crate::memory::View;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

const VALUE: u64 = 8;
const MAILBOX: u64 = 16;
const EVENT: u64 = 24;
const START: u64 = 32;
const END: u64 = 40;

/// Value of a signal whose packet was not carried out. A thread that waits for less than 1 goes on.
const FAILED: u64 = -1_i64 as u64;

/// The value of a signal.
pub(crate) fn value(view: &View<'_>, signal: u64) -> Result<i64, Unmapped> {
    Ok(view.word64(signal.wrapping_add(VALUE))?.load(Acquire) as i64)
}

/// Tells waiting threads that a packet is done, or will never be. Without a signal no thread waits.
pub(crate) fn complete(
    view: &View<'_>,
    events: &Events,
    signal: u64,
    start: u64,
    good: bool,
) -> Result<(), Unmapped> {
    if signal == 0 {
        return Ok(());
    }
    view.word64(signal.wrapping_add(START))?.store(start, Relaxed);
    view.word64(signal.wrapping_add(END))?.store(Clock::Host.now(), Relaxed);
    let event = view.word32(signal.wrapping_add(EVENT))?.load(Relaxed);
    let mailbox = match view.word64(signal.wrapping_add(MAILBOX))?.load(Relaxed) {
        0 => None,
        at => Some(view.word64(at)?),
    };
    let value = view.word64(signal.wrapping_add(VALUE))?;
    if good {
        value.fetch_sub(1, SeqCst)
    } else {
        value.swap(FAILED, SeqCst)
    };
    // From here on the signal may be used for something else, or be gone.
    if let Some(mailbox) = mailbox {
        mailbox.store(event.into(), Release);
        events.set(event);
    }
    Ok(())
}
