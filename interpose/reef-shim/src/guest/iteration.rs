//! Iterations of this process: for each thread, from its first launch to the end of its wait for
//! the device. A daemon with a target for this program's latency reads them. Of a program that
//! waits by other means the watchdog sees when its work ends.

use super::device::Device;
use reef_guest::page::{Iteration, Time};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Time after which a program without iterations of threads has those that the watchdog sees, in
/// nanoseconds.
const NO_ITERATIONS: u64 = 1_000_000_000;

/// Time at which a thread last ended an iteration.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Open iteration of a thread.
#[derive(Clone, Copy)]
struct Open {
    device: &'static Device,
    begin: u64,
    launches: u32,
}

thread_local! {
    /// Has no destructor, so that its use costs no allocation.
    static OPEN: Cell<Option<Open>> = const { Cell::new(None) };
}

/// Notes a launch of this thread, which begins an iteration if none is open.
pub(crate) fn note_launch(device: &'static Device) {
    let next = match OPEN.get() {
        Some(open) => Open { launches: open.launches.wrapping_add(1), ..open },
        None => Open { device, begin: Time::now().0, launches: 1 },
    };
    OPEN.set(Some(next));
}

/// Ends this thread's iteration, because it has waited for the device. Iterations with the same
/// number of launches are of one kind.
pub(crate) fn end() {
    if let Some(Open { device, begin, launches }) = OPEN.take() {
        let end = Time::now().0;
        let length = end.saturating_sub(begin);
        LAST.store(end, Relaxed);
        note(device, Iteration { end, length, kind: launches });
    }
}

fn note(device: &Device, iteration: Iteration) {
    device.page.iterations.add(iteration);
    device.page.counts.iteration_ns.fetch_add(iteration.length, Relaxed);
}

/// Iteration of a program that doesn't wait by the driver, as the watchdog sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeenIteration {
    begin: u64,
    pulse: u64,
}

impl SeenIteration {
    /// Begins an iteration, because the program has launched something.
    pub(super) fn begin(device: &Device) -> Self {
        Self { begin: Time::now().0, pulse: device.page.activity.pulse() }
    }

    /// Ends it, because all work has ended. It counts if no thread has ended one recently.
    pub(super) fn end(self, device: &Device) {
        let (page, end) = (&device.page, Time::now().0);
        if end.saturating_sub(LAST.load(Relaxed)) > NO_ITERATIONS {
            let launches = page.activity.pulse().wrapping_sub(self.pulse) as u32;
            let kind = launches | 1 << 31; // never that of a thread's iteration
            note(device, Iteration { end, length: end.saturating_sub(self.begin), kind });
        }
    }
}
