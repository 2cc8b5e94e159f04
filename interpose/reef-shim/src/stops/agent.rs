//! Agent: a thread that stops slices of a guest that is held.

use super::driver;
use super::sliced_stream::SlicedStream;
use super::stop_context::{self, StopContext};
use super::wake;
use crate::explain;
use crate::order;
use crate::thread;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// Interval between polls of the gate while slices are on the device, on a host of few processors.
/// The system may add 50 µs to it, so elsewhere the agent keeps a processor busy meanwhile.
const POLL_INTERVAL: Duration = Duration::from_micros(10);
const MIN_PROCESSORS: usize = 4;
/// Interval between checks of contexts with slices on the device.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Codes of a query that say that work goes on: success, not ready, and all about captures.
const WELL: [RangeInclusive<u32>; 3] = [0..=0, 600..=600, 900..=909];
/// Pauses of a processor between two polls.
const SPINS: u32 = 20;

/// Starts the thread, once.
pub(crate) fn start() {
    wake::start(|| {
        let started = thread::spawn("reef-stops", run);
        let refuse = |error| explain::refuse::<()>(&format!("no thread for stops: {error}"));
        started.map_err(refuse).ok()
    });
}

fn run() {
    // SAFETY: a number for this thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
    let spins =
        std::thread::available_parallelism().is_ok_and(|count| count.get() >= MIN_PROCESSORS);
    let mut checked = Instant::now();
    loop {
        wake::begin();
        let is_due = checked.elapsed() >= CHECK_INTERVAL;
        if is_due {
            checked = Instant::now();
        }
        let mut has_slices = false;
        stop_context::each(|stop_context| has_slices |= serve(stop_context, is_due));
        if !has_slices {
            wake::rest();
        } else if spins {
            pause();
        } else {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Waits for about a microsecond.
fn pause() {
    (0..SPINS).for_each(|_| std::hint::spin_loop());
    std::thread::yield_now();
}

/// Stops slices of a context whose gate is closed, after a check of the context if that is due.
/// Returns whether slices are on the device.
fn serve(stop_context: &'static StopContext, is_check_due: bool) -> bool {
    let busy = || stop_context.sliced_streams().filter(|sliced| sliced.is_busy());
    if busy().next().is_none() || (is_check_due && !is_well(stop_context)) {
        return false;
    }
    let context = &stop_context.branch.context;
    let page = &context.device.page;
    let hold = page.spans.ended();
    if !page.holders.is_closed() {
        busy().for_each(SlicedStream::note_open);
        return true;
    }
    // A context that ends waits until this closure has returned.
    order::stop(|| {
        if stop_context.is_there() {
            context.within(|| busy().for_each(|sliced| sliced.stop(&stop_context.streams, hold)));
        }
    });
    true
}

/// Returns whether the driver still takes work of a context. After an error that stays, its slices
/// never end.
fn is_well(stop_context: &'static StopContext) -> bool {
    order::stop(|| {
        let query = || driver::query_stream(stop_context.streams[0]);
        if !stop_context.is_there() {
            return false;
        }
        let code = stop_context.branch.context.within(query);
        let is_well = code.is_none_or(|code| WELL.iter().any(|range| range.contains(&code)));
        if !is_well {
            stop_context.lose();
        }
        is_well
    })
}
