//! Pause of a swappable program. Its steps stand in [`pause_gate`](super::pause_gate).

use super::pause_gate::{PAUSED, RESUMED, TOUCHING, lock};
use super::slots;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Interval between polls of calls under way.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// Pause, which ends with this value.
#[derive(Debug)]
pub(crate) struct Pause(());

/// Has all calls wait, once those under way that touch memory have returned. `None`: one didn't
/// until the deadline, or there is a pause; nothing waits.
pub(crate) fn begin(deadline: Instant) -> Option<Pause> {
    let guard = lock();
    if PAUSED.swap(true, SeqCst) {
        return None;
    }
    drop(guard);
    let pause = Pause(());
    slots::clear();
    while TOUCHING.load(SeqCst) > 0 {
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Some(pause)
}

impl Drop for Pause {
    fn drop(&mut self) {
        let _guard = lock();
        PAUSED.store(false, SeqCst);
        RESUMED.notify_all();
    }
}
