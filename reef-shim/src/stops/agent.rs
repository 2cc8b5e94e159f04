//! Agent: a thread that stops slices of a guest that is held.

use super::ground::{self, Ground};
use crate::explain;
use crate::order;
use crate::thread;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::Thread;
use std::time::Duration;

/// Interval between looks at the gate while slices are on the device.
const POLL_INTERVAL: Duration = Duration::from_micros(10);

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
    // Or the system adds 50 µs to each sleep.
    // SAFETY: a number for this thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
    loop {
        IS_AWAKE.store(false, SeqCst);
        let mut has_slices = false;
        ground::each(|ground| has_slices |= look(ground));
        match has_slices {
            true => std::thread::sleep(POLL_INTERVAL),
            false if IS_AWAKE.load(SeqCst) => {}
            false => std::thread::park(),
        }
    }
}

/// Stops slices of a context whose gate is closed. Returns whether slices are on the device.
fn look(ground: &'static Ground) -> bool {
    let has_slices = ground.lanes().fold(false, |found, lane| lane.drop_ended() | found);
    let context = &ground.branch.context;
    if has_slices && context.device.page.holders.is_closed() {
        // A context that ends waits until this closure has returned.
        order::stop(|| {
            if ground.is_there() {
                context.within(|| ground.lanes().for_each(|lane| lane.stop(ground)));
            }
        });
    }
    has_slices
}
