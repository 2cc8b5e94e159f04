//! Agent: a thread that stops slices of a guest that is held.

use super::ground::{self, Ground};
use super::lane::Lane;
use super::wake;
use crate::explain;
use crate::order;
use crate::thread;
use std::time::Duration;

/// Interval between looks at the gate while slices are on the device, on a host of few processors.
/// The system may add 50 µs to it, so elsewhere the agent keeps a processor busy meanwhile.
const POLL_INTERVAL: Duration = Duration::from_micros(10);
const MIN_PROCESSORS: usize = 4;
/// Pauses of a processor between two looks.
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
    loop {
        wake::begin();
        let mut has_slices = false;
        ground::each(|ground| has_slices |= look(ground));
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

/// Stops slices of a context whose gate is closed. Returns whether slices are on the device.
fn look(ground: &'static Ground) -> bool {
    let busy = || ground.lanes().filter(|lane| lane.is_busy());
    if busy().next().is_none() {
        return false;
    }
    let context = &ground.branch.context;
    let page = &context.device.page;
    let hold = page.spans.ended();
    if !page.holders.is_closed() {
        busy().for_each(Lane::note_open);
        return true;
    }
    // A context that ends waits until this closure has returned.
    order::stop(|| {
        if ground.is_there() {
            context.within(|| busy().for_each(|lane| lane.stop(&ground.streams, hold)));
        }
    });
    true
}
