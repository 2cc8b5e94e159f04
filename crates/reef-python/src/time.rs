//! Times, as Python has them: seconds.

use crate::errors::raised;
use pyo3::prelude::*;
use reef_any::{Fault, Times};
use std::time::Duration;

/// Time after which a waiting thread checks whether it was interrupted.
pub(crate) const TURN: Duration = Duration::from_millis(20);

/// Delay, time on the device, and total, in seconds. The first two are of real-time requests.
pub(crate) type Timing = (Option<f64>, Option<f64>, f64);

/// Times of a request.
pub(crate) fn timing(times: Times) -> Timing {
    let in_seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    (in_seconds(times.delay), in_seconds(times.device), times.total.as_secs_f64())
}

/// A time that Python gives.
pub(crate) fn seconds(what: &str, seconds: f64) -> PyResult<Duration> {
    let time = Duration::try_from_secs_f64(seconds);
    time.map_err(|error| raised(Fault::invalid(format!("{what}: {error}, got {seconds}"))))
}
