//! Requests, and their outputs.

use crate::errors::{HostError, raised};
use crate::memory::array::{Array, Keep, bytes_of, read_memory, zeros};
use crate::memory::pool::Lease;
use crate::memory::ports::PortSpec;
use crate::owned::Owned;
use crate::time::{TURN, Timing, timing};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use reef_any::{End, Fault, Reason, Side};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Form of a request's outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Arrays of NumPy.
    Numpy,
    /// Arrays on the device, in memory of their own.
    Device,
    /// Arrays in the instance's own memory.
    Slot,
}

/// A request that is on its way, or has ended.
pub(crate) struct Started {
    pub(crate) lease: Arc<Lease>,
    pub(crate) request: reef_any::Request,
    pub(crate) side: Side,
    pub(crate) form: Form,
}

impl Started {
    /// Waits for the end, and returns the outputs.
    pub(crate) fn run<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        wait(py, &self.request, None)?;
        self.outputs(py)
    }

    /// Outputs of the request, which has ended: one, or a tuple of them.
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let ports = &self.lease.pool.outputs;
        self.ensure_ended(py)?;
        let each: Vec<Bound<'py, PyAny>> = match self.form {
            Form::Numpy => {
                let memory = self.lease.memory(End::Outputs, self.side);
                let read = |port: &PortSpec| {
                    let array = zeros(port.descr(py)?, &port.dims)?;
                    // SAFETY: it was made just now, and nothing else has it.
                    let bytes = unsafe { &mut *bytes_of(&array, port.bytes) };
                    read_memory(py, memory, port.offset, bytes)?;
                    let read = |at, size: &mut [u8; 8]| read_memory(py, memory, at, size);
                    port.decoded(port.cut(array.into_any(), read)?)
                };
                ports.iter().map(read).collect::<PyResult<_>>()?
            }
            Form::Device => {
                let outputs = py.detach(|| self.lease.copy_outputs()).map_err(raised)?;
                let keep: Keep = outputs.clone();
                arrays(py, ports, &outputs.memory, &keep)?
            }
            Form::Slot => {
                let keep: Keep = self.lease.clone();
                arrays(py, ports, self.lease.memory(End::Outputs, self.side), &keep)?
            }
        };
        match each.len() {
            1 => Ok(each.into_iter().next().expect("there is one")),
            _ => Ok(PyTuple::new(py, each)?.into_any()),
        }
    }
}

impl Started {
    /// Refuses outputs without meaning, of a request in which a loop did not end within its bound.
    fn ensure_ended(&self, py: Python<'_>) -> PyResult<()> {
        let memory = self.lease.memory(End::Outputs, self.side);
        for (offset, name) in &self.lease.pool.checks {
            let mut left = [0; 8];
            read_memory(py, memory, *offset, &mut left)?;
            if i64::from_le_bytes(left) != 0 {
                return Err(raised(reef::models::Error::Unended { at: name.clone() }.into()));
            }
        }
        Ok(())
    }
}

/// Arrays of all ports, in memory that something keeps.
pub(crate) fn arrays<'py>(
    py: Python<'py>,
    ports: &[PortSpec],
    memory: &reef_any::Memory,
    keep: &Keep,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let Some(port) = ports.iter().find(|port| port.bound.is_some()) {
        let name = &port.name;
        let text =
            format!("data decide about a size of output {name}, so it is copied to the host");
        return Err(raised(Fault::new(Reason::Unsupported, text)));
    }
    if let Some(port) = ports.iter().find(|port| port.is_text()) {
        let name = &port.name;
        let text = format!("{name} is of texts, which are arrays of NumPy alone");
        return Err(raised(Fault::new(Reason::Unsupported, text)));
    }
    let array = |port| Ok(Bound::new(py, Array::of(port, memory, keep.clone()))?.into_any());
    ports.iter().map(array).collect()
}

/// A submitted inference.
#[pyclass(frozen, module = "reef._reef")]
pub(crate) struct Request(Owned<Pending>);

struct Pending {
    request: reef_any::Request,
    output: Mutex<Output>,
}

/// Outputs of a request. They are kept when they were read: a signal's handler may raise before the
/// caller has them, which asks again.
enum Output {
    Memory(Arc<Started>),
    Read(Py<PyAny>),
    None,
}

impl Request {
    pub(crate) fn new(started: Started) -> Self {
        let request = started.request.clone();
        let output = Mutex::new(Output::Memory(Arc::new(started)));
        Self(Owned::new(Pending { request, output }))
    }
}

#[pymethods]
impl Request {
    /// Waits until it has ended, or for `timeout` seconds. Returns its times, or nothing if it goes
    /// on. Doesn't hold the interpreter's lock; a signal's handler runs and may raise.
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Timing>> {
        let pending = self.0.get()?;
        let how = wait(py, &pending.request, timeout);
        // Not for the exception of a signal's handler: the request may have succeeded meanwhile.
        if how.is_err() && matches!(pending.request.poll(), Some(Err(_))) {
            pending.set(Output::None);
        }
        how
    }

    /// Outputs of the request: one, or a tuple of them. It must have ended.
    fn output<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let pending = self.0.get()?;
        if pending.request.poll().is_none() {
            return Err(raised(Fault::busy("the request has not ended")));
        }
        let started = match &*pending.output.lock() {
            Output::Memory(started) => started.clone(),
            Output::Read(made) => return Ok(made.bind(py).clone()),
            Output::None => return Err(raised(Fault::invalid("the request has no outputs"))),
        };
        let made = started.outputs(py)?; // without the lock: it may wait
        pending.set(Output::Read(made.clone().unbind()));
        Ok(made)
    }

    /// Takes back what the device hasn't got. Returns whether there was such a thing.
    fn cancel(&self, py: Python<'_>) -> PyResult<bool> {
        let request = &self.0.get()?.request;
        py.detach(|| request.cancel()).map_err(raised)
    }
}

impl Pending {
    fn set(&self, output: Output) {
        let old = std::mem::replace(&mut *self.output.lock(), output);
        drop(old); // without the lock
    }
}

fn wait(
    py: Python<'_>,
    request: &reef_any::Request,
    timeout: Option<f64>,
) -> PyResult<Option<Timing>> {
    let how = until_ended(py, timeout, |limit| {
        if limit.is_zero() { request.poll() } else { request.wait(Some(limit)) }
    })?;
    how.map(|how| how.map(timing).map_err(raised)).transpose()
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

/// Calls `work` in a thread of its own, which goes on if a signal's handler ends the wait.
pub(crate) fn in_thread<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (done, outcome) = mpsc::channel();
    let run = move || drop(done.send(work())); // no thread may wait any more
    let started = thread::Builder::new().name("reef-python".into()).spawn(run);
    started.map_err(|error| HostError::new_err(format!("a thread cannot start: {error}")))?;
    let outcome = Mutex::new(outcome);
    let ended = until_ended(py, None, |limit| match outcome.lock().recv_timeout(limit) {
        Ok(outcome) => Some(Some(outcome)),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(None), // it has panicked
    })?;
    let fault = || raised(Fault::new(Reason::Internal, "a thread of the library has panicked"));
    ended.flatten().ok_or_else(fault)
}
