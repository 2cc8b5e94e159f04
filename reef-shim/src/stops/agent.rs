//! Agent: a thread that stops slices of a guest that is held.

use super::ground::{self, Ground};
use super::lane::Lane;
use crate::explain;
use crate::order;
use crate::thread;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::Thread;
use std::time::Duration;

/// Interval between looks at the gate while slices are on the device, on a host of few processors.
/// The system may add 50 µs to it, so elsewhere the agent keeps a processor busy meanwhile.
const POLL_INTERVAL: Duration = Duration::from_micros(10);
const MIN_PROCESSORS: usize = 4;
/// Pauses of a processor between two looks.
const SPINS: u32 = 20;

static AGENT: OnceLock<Option<Thread>> = OnceLock::new();
/// Set before the agent looks whether slices are left, and by who launches one.
static IS_AWAKE: AtomicBool = AtomicBool::new(false);

/// Starts the thread, once.
pub(super) fn start() {
    AGENT.get_or_init(|| {
        let started = thread::spawn("reef-stops", run);
        started
            .map_err(|error| explain::refuse::<()>(&format!("no thread for stops: {error}")))
            .ok()
    });
}

/// Has the agent look at slices, because there is one.
pub(super) fn wake() {
    if !IS_AWAKE.swap(true, SeqCst) {
        AGENT.get().and_then(Option::as_ref).inspect(|thread| thread.unpark());
    }
}

fn run() {
    // SAFETY: a number for this thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
    let spins =
        std::thread::available_parallelism().is_ok_and(|count| count.get() >= MIN_PROCESSORS);
    loop {
        IS_AWAKE.store(false, SeqCst);
        let mut has_slices = false;
        ground::each(|ground| has_slices |= look(ground));
        match has_slices {
            true if spins => pause(),
            true => std::thread::sleep(POLL_INTERVAL),
            false if IS_AWAKE.load(SeqCst) => {}
            false => std::thread::park(),
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
            context.within(|| busy().for_each(|lane| lane.stop(ground, hold)));
        }
    });
    true
}
