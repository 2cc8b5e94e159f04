//! Clients: a whole request is one call.

use crate::errors::{InvalidError, raised};
use crate::memory::inputs;
use crate::network::{Network, Slot};
use crate::owned::Owned;
use crate::request::{Form, Request, Started, in_thread};
use crate::time::seconds;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use reef_any::{Fault, MemoryLocation, Side, Turn};
use std::sync::Arc;
use std::time::Duration;

/// A client of a device's dispatcher.
#[pyclass(frozen, module = "reef._reef")]
pub(crate) struct Client(pub(crate) Owned<Arc<reef_any::Client>>);

/// Arguments of a request.
type Args<'a, 'py> = (&'a Bound<'py, PyTuple>, Option<&'a Bound<'py, PyDict>>);

#[pymethods]
impl Client {
    /// Submits one inference, to end within `deadline` seconds if that is given.
    #[pyo3(signature = (network, inputs, named, deadline, out))]
    fn submit(
        &self,
        network: &Network,
        inputs: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
        deadline: Option<f64>,
        out: Option<&str>,
    ) -> PyResult<Request> {
        Ok(Request::new(self.start(network, (inputs, named), deadline, out)?))
    }

    /// As `submit`, and waits for the outputs.
    #[pyo3(signature = (network, inputs, named, deadline, out))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        network: &Network,
        inputs: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
        deadline: Option<f64>,
        out: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.start(network, (inputs, named), deadline, out)?.run(py)
    }

    /// Submits an inference of memory that is filled, except for inputs that are given.
    fn submit_slot(
        &self,
        slot: &Slot,
        inputs: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
        deadline: Option<f64>,
    ) -> PyResult<Request> {
        Ok(Request::new(self.start_slot(slot, (inputs, named), deadline)?))
    }

    /// As `submit_slot`, and waits for the outputs.
    fn run_slot<'py>(
        &self,
        py: Python<'py>,
        slot: &Slot,
        inputs: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
        deadline: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.start_slot(slot, (inputs, named), deadline)?.run(py)
    }

    /// Device time in seconds, requests that have ended, and those that began without budget.
    fn usage(&self, py: Python<'_>) -> PyResult<(f64, Option<u64>, Option<u64>)> {
        let client = self.0.get()?;
        let usage = py.detach(|| client.usage()).map_err(raised)?;
        Ok((usage.served.as_secs_f64(), usage.requests, usage.late))
    }

    /// Ends it, and waits for what runs.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let client = self.0.get()?.clone();
        in_thread(py, move || client.close())
    }
}

impl Client {
    fn start(
        &self,
        network: &Network,
        args: Args<'_, '_>,
        deadline: Option<f64>,
        out: Option<&str>,
    ) -> PyResult<Started> {
        let (values, named) = args;
        let (py, client, pool) = (values.py(), self.0.get()?, network.pool.get()?);
        let (deadline, form) = (time_of(deadline)?, form_of(out)?);
        if form == Some(Form::Device) && pool.location() == MemoryLocation::Private {
            let text = "out: memory of this device can't be used in place";
            return Err(crate::errors::UnsupportedError::new_err(text));
        }
        let lease = Arc::new(pool.take(py)?);
        let mut turn = Turn::wait(&lease.network).map_err(raised)?; // the lease's alone
        let side = inputs::write(&lease, &mut turn, values, named)?;
        let form = form.unwrap_or(match side {
            Side::Host => Form::Numpy,
            Side::Device => Form::Device,
        });
        let request = py.detach(|| client.submit_in(&mut turn, side, deadline));
        let request = request.map_err(raised)?;
        drop(turn);
        Ok(Started { lease, request, side, form })
    }

    fn start_slot(
        &self,
        slot: &Slot,
        args: Args<'_, '_>,
        deadline: Option<f64>,
    ) -> PyResult<Started> {
        let (values, named) = args;
        let (py, client, lease) = (values.py(), self.0.get()?, slot.lease.get()?);
        let deadline = time_of(deadline)?;
        // Without waiting: its owner may need the interpreter's lock, which this thread has.
        let turn = Turn::take(&lease.network, Some(Duration::ZERO));
        let busy = || Fault::busy("another thread submits a request of the slot");
        let mut turn = turn.ok_or_else(busy).flatten().map_err(raised)?;
        if !values.is_empty() || named.is_some_and(|named| !named.is_empty()) {
            inputs::write_to(lease, &mut turn, slot.side, values, named)?;
        } else if slot.side == Side::Device {
            inputs::wait_until(py, || lease.network.default_has_ended())?;
        }
        let request = py.detach(|| client.submit_in(&mut turn, slot.side, deadline));
        let request = request.map_err(raised)?;
        Ok(Started { lease: lease.clone(), request, side: slot.side, form: Form::Slot })
    }
}

fn time_of(deadline: Option<f64>) -> PyResult<Option<Duration>> {
    deadline.map(|time| seconds("deadline", time)).transpose()
}

/// `None`: outputs are where the inputs were.
fn form_of(out: Option<&str>) -> PyResult<Option<Form>> {
    match out {
        None => Ok(None),
        Some("host") => Ok(Some(Form::Numpy)),
        Some("device") => Ok(Some(Form::Device)),
        Some(other) => {
            let text = format!("out must be \"host\", \"device\" or None, got {other:?}");
            Err(InvalidError::new_err(text))
        }
    }
}
