//! Histograms of times, and waiting for a time.

use hdrhistogram::Histogram;
use reef::Device;
use std::thread;
use std::time::Duration;

/// How long a sleep may last longer than asked; the rest is waited for awake.
const OVERSLEEP: Duration = Duration::from_micros(150);

/// An empty histogram of nanoseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits")
}

/// Adds a time.
pub(crate) fn note(histogram: &mut Histogram<u64>, time: Duration) {
    *histogram += time.as_nanos() as u64;
}

/// Waits until the device's clock shows `at`: most of the time asleep, in the end awake.
pub(crate) fn wait_until<D: Device>(device: &D, at: Duration) {
    wait(|| device.clock(), at);
}

/// Waits until `clock` shows `at`, likewise.
pub(crate) fn wait(clock: impl Fn() -> Duration, at: Duration) {
    while let Some(left) = at.checked_sub(clock()).filter(|left| !left.is_zero()) {
        match left.checked_sub(OVERSLEEP) {
            Some(asleep) => thread::sleep(asleep),
            None => thread::yield_now(),
        }
    }
}
