//! Histograms of times, and waiting for a time.

use hdrhistogram::Histogram;
use reef::Device;
#[cfg(feature = "bench")]
use reef::{Seq, Submitter};
use std::thread;
use std::time::Duration;
#[cfg(feature = "bench")]
use std::time::Instant;

/// Longest overrun of a sleep; the rest of the time is spun.
#[cfg(feature = "bench")]
const OVERSLEEP: Duration = Duration::from_micros(150);

/// A queue that shows nothing for so long is asked what is wrong.
#[cfg(feature = "bench")]
const TIMEOUT: Duration = Duration::from_secs(5);

/// An empty histogram of nanoseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits")
}

/// Adds a time.
pub(crate) fn note(histogram: &mut Histogram<u64>, time: Duration) {
    *histogram += time.as_nanos() as u64;
}

/// Waits until the device's clock shows `at`: most of the time asleep, in the end awake.
#[cfg(feature = "bench")]
pub(crate) fn wait_until<D: Device>(device: &D, at: Duration) {
    wait(|| device.clock(), at);
}

/// Sleeps until the device's clock shows `at`, or a little later. Where blocks run on the host's
/// processors, a spinning thread would take a core from them.
pub(crate) fn sleep_until<D: Device>(device: &D, at: Duration) {
    thread::sleep(at.saturating_sub(device.clock()));
}

/// Waits until `clock` shows `at`, likewise.
#[cfg(feature = "bench")]
pub(crate) fn wait(clock: impl Fn() -> Duration, at: Duration) {
    while let Some(left) = at.checked_sub(clock()).filter(|left| !left.is_zero()) {
        match left.checked_sub(OVERSLEEP) {
            Some(asleep) => thread::sleep(asleep),
            None => thread::yield_now(),
        }
    }
}

/// Waits for the command at `seq` without sleeping, which would be in the measurement.
#[cfg(feature = "bench")]
pub(crate) fn wait_awake<D: Device>(submitter: &Submitter<D>, seq: Seq) -> reef::Result<()> {
    let begin = Instant::now();
    while submitter.completed() <= seq {
        if begin.elapsed() > TIMEOUT {
            return submitter.wait(seq);
        }
        thread::yield_now();
    }
    Ok(())
}
