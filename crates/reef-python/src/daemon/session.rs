//! A model of a daemon, and requests to it.

use super::exchange::{Answer, Exchange, Outcome, RequestId};
use crate::errors::{Error, daemon_error};
use crate::owned::Owned;
use crate::request::until_ended;
use crate::time::Timing;
use numpy::{PyArray1, PyReadonlyArray1};
use parking_lot::Mutex;
use pyo3::prelude::*;
use reef_serve::{Class, Client, Options, Rate};
use std::os::fd::IntoRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Connects to a socket in a daemon's folder, after checking its owner. Returns the descriptor.
#[pyfunction]
pub(crate) fn daemon_socket(
    py: Python<'_>,
    folder: Option<PathBuf>,
    socket: &str,
) -> PyResult<i32> {
    let stream = py.detach(|| reef_serve::connect(folder.as_deref(), socket));
    stream.map(IntoRawFd::into_raw_fd).map_err(|error| daemon_error(&error))
}

/// A connection to a model of a daemon, through shared memory.
#[pyclass(frozen, module = "reef._reef")]
pub(crate) struct Session(Owned<Arc<Exchange>>);

#[pymethods]
impl Session {
    /// Connects, and waits until the model is loaded. `rate` is a period and a budget in seconds.
    #[new]
    fn new(
        py: Python<'_>,
        folder: Option<PathBuf>,
        model: &str,
        is_real_time: Option<bool>,
        rate: Option<(f64, f64)>,
    ) -> PyResult<Self> {
        let class = is_real_time
            .map(|is_real_time| if is_real_time { Class::RealTime } else { Class::BestEffort });
        let rate = rate.map(|(period, budget)| {
            let rate = Rate::new(duration("period", period)?, duration("budget", budget)?);
            rate.map_err(|error| daemon_error(&error.into()))
        });
        let rate = rate.transpose()?;
        let options = Options { folder, class, rate, ..Options::default() };
        let client = py.detach(|| Client::connect(model, &options));
        let client = client.map_err(|error| daemon_error(&error))?;
        Ok(Self(Owned::new(Arc::new(Exchange::new(client)))))
    }

    /// Returns whether it has ended, as far as that was seen: no further request will succeed.
    fn is_lost(&self, py: Python<'_>) -> PyResult<bool> {
        let exchange = self.0.get()?;
        Ok(py.detach(|| exchange.is_lost())) // another thread may connect again, with the lock
    }

    /// Submits one inference, to end within `deadline` seconds if that is given.
    fn submit(
        &self,
        py: Python<'_>,
        input: PyReadonlyArray1<'_, f32>,
        deadline: Option<f64>,
    ) -> PyResult<DaemonRequest> {
        let exchange = self.0.get()?;
        let timeout = deadline.map(|seconds| duration("deadline", seconds)).transpose()?;
        let input = input.as_slice()?;
        let id = py.detach(|| exchange.submit(input, timeout));
        let id = id.map_err(|error| daemon_error(&error))?;
        let (exchange, (outcome, output)) = (exchange.clone(), Default::default());
        Ok(DaemonRequest(Owned::new(Sent { exchange, id, outcome, output })))
    }
}

fn duration(what: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|error| daemon_error(&reef_serve::Error::Invalid(format!("{what}: {error}"))))
}

/// A submitted inference.
#[pyclass(frozen, module = "reef._reef")]
pub(crate) struct DaemonRequest(Owned<Sent>);

struct Sent {
    exchange: Arc<Exchange>,
    id: RequestId,
    /// Kept, as the output is: a signal's handler may raise before the caller has what it asked
    /// for, and then it asks again.
    outcome: Mutex<Option<Outcome>>,
    output: Mutex<Option<Py<PyArray1<f32>>>>,
}

impl Sent {
    /// Waits until it has ended, for no longer than `limit`. A signal's handler may have waited
    /// since the last turn.
    fn wait(&self, limit: Duration) -> Option<reef_serve::Result<Timing>> {
        let known = self.outcome.lock().as_ref().map(Self::times);
        known.or_else(|| {
            let outcome = self.exchange.wait(self.id, limit)?;
            let times = Self::times(&outcome);
            *self.outcome.lock() = Some(outcome);
            Some(times)
        })
    }

    /// Times of a request, or its error.
    fn times(outcome: &Outcome) -> reef_serve::Result<Timing> {
        let Answer { timing, total, .. } = outcome.as_ref().map_err(Clone::clone)?;
        let seconds = [timing.delay, timing.infer, *total].map(|time| time.as_secs_f64());
        Ok((Some(seconds[0]), Some(seconds[1]), seconds[2]))
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.exchange.abandon(self.id);
    }
}

#[pymethods]
impl DaemonRequest {
    /// Waits until it has ended, as `Request.wait` does.
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Timing>> {
        let sent = self.0.get()?;
        let times = until_ended(py, timeout, |limit| sent.wait(limit))?;
        times.transpose().map_err(|error| daemon_error(&error))
    }

    /// The output. It must have ended.
    fn output<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let sent = self.0.get()?;
        if let Some(made) = &*sent.output.lock() {
            return Ok(made.bind(py).clone());
        }
        let values = match &mut *sent.outcome.lock() {
            Some(Ok(answer)) => std::mem::take(&mut answer.output),
            _ => return Err(Error::new_err("the request has no output")),
        };
        let made = PyArray1::from_vec(py, values);
        *sent.output.lock() = Some(made.clone().unbind());
        Ok(made)
    }
}
