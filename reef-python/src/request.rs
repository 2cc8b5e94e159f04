//! Requests.

use crate::errors::raised;
use crate::owned::Owned;
use pyo3::prelude::*;
use reef_any::Times;
use std::time::{Duration, Instant};

/// Time after which a waiting thread looks whether it was interrupted.
const TURN: Duration = Duration::from_millis(20);

/// Delay, time on the device, and total, in seconds. The first two are of real-time requests.
pub(crate) type Timing = (Option<f64>, Option<f64>, f64);

/// A submitted inference.
#[pyclass(frozen, module = "reef._reef")]
pub(crate) struct Request(pub(crate) Owned<reef_any::Request>);

#[pymethods]
impl Request {
    /// Waits until it has ended, or for `timeout` seconds. Returns its times, or nothing if it goes
    /// on. Doesn't hold the interpreter's lock; a signal's handler runs and may raise.
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Timing>> {
        let request = self.0.get()?;
        let how = until_ended(py, timeout, |limit| {
            if limit.is_zero() { request.look() } else { request.wait(Some(limit)) }
        })?;
        how.map(|how| how.map(seconds).map_err(raised)).transpose()
    }

    /// Takes back what the device hasn't got. Returns whether there was such a thing.
    fn cancel(&self) -> PyResult<bool> {
        self.0.get()?.cancel().map_err(raised)
    }
}

/// Waits by `wait`, in turns between which signals are looked at, for as long as `timeout` seconds.
/// `wait` gets the time of its turn, and is called without the interpreter's lock.
pub(crate) fn until_ended<T: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    wait: impl Fn(Duration) -> Option<T> + Sync,
) -> PyResult<Option<T>> {
    // A time that is too long for a `Duration` doesn't limit.
    let limit = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok());
    let end = limit.and_then(|limit| Instant::now().checked_add(limit));
    loop {
        let left = end.map_or(TURN, |end| end.saturating_duration_since(Instant::now()));
        match py.detach(|| wait(left.min(TURN))) {
            Some(how) => return Ok(Some(how)),
            None if left.is_zero() => return Ok(None),
            None => py.check_signals()?,
        }
    }
}

fn seconds(times: Times) -> Timing {
    let in_seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    (in_seconds(times.delay), in_seconds(times.device), times.total.as_secs_f64())
}
