//! Devices.

use crate::client::Client;
use crate::errors::raised;
use crate::model_args::ModelArgs;
use crate::network::{Network, Origin};
use crate::owned::{Owned, SlowDrop};
use crate::request::in_thread;
use crate::time::seconds;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use reef::{ClientConfig, Rate, queue::Config};
use reef_any::Fault;
use std::sync::Arc;

/// A backend, the names of its devices, or why it has none.
type Found = (&'static str, Option<Vec<String>>, Option<String>);

/// Returns the names of all devices, by backend.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> Vec<Found> {
    let found = py.detach(reef::devices);
    let split = |(backend, found): (_, reef::Result<_>)| match found {
        Ok(names) => (backend, Some(names), None),
        Err(error) => (backend, None, Some(error.to_string())),
    };
    found.into_iter().map(split).collect()
}

/// Returns the names of all schedulers.
#[pyfunction]
pub(crate) fn schedulers() -> Vec<&'static str> {
    reef::scheduler::NAMES.to_vec()
}

/// Opens a device, and starts a dispatcher with a scheduler on it.
#[pyfunction]
#[pyo3(signature = (name, scheduler, reserve))]
pub(crate) fn open(
    py: Python<'_>,
    name: &str,
    scheduler: &str,
    reserve: Option<f64>,
) -> PyResult<Device> {
    let (device, dispatcher) = py
        .detach(|| {
            let device = reef_any::Device::open(name)?;
            let dispatcher = device.dispatcher_with(scheduler, reserve)?;
            Ok((device, dispatcher))
        })
        .map_err(raised)?;
    let (device, dispatcher) = (SlowDrop::new(device), SlowDrop::new(Arc::new(dispatcher)));
    Ok(Device { device: Owned::new(device), dispatcher: Owned::new(dispatcher) })
}

/// An open device.
#[pyclass(frozen, module = "reef._reef")]
pub(crate) struct Device {
    dispatcher: Owned<SlowDrop<Arc<reef_any::Dispatcher>>>,
    device: Owned<SlowDrop<reef_any::Device>>,
}

#[pymethods]
impl Device {
    /// Facts of the device.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = self.device.get()?.info();
        let facts = PyDict::new(py);
        facts.set_item("name", &info.name)?;
        facts.set_item("units", info.units)?;
        facts.set_item("level", info.level.to_string())?;
        facts.set_item("memory", info.memory)?;
        Ok(facts)
    }

    /// Loads a network.
    fn load(&self, py: Python<'_>, model: ModelArgs, instances: usize) -> PyResult<Network> {
        let device = self.device.get()?;
        let loaded = py.detach(|| {
            let (read, switches) = model.read_with_switches()?;
            let declared = model.opened()?.declared()?;
            Ok((read.name().to_owned(), device.load(&read)?, declared, switches))
        });
        let (name, network, declared, switches) = loaded.map_err(raised)?;
        let origin = Origin { args: model, declared, switches };
        Network::new(name, network, instances, Arc::new(origin))
    }

    /// Opens a real-time client. `rate` is a period and a budget in seconds.
    #[pyo3(signature = (priority, rate))]
    fn real_time(
        &self,
        py: Python<'_>,
        priority: i32,
        rate: Option<(f64, f64)>,
    ) -> PyResult<Client> {
        let dispatcher = self.dispatcher.get()?;
        let rate = rate.map(|(period, budget)| {
            let rate = Rate::new(seconds("period", period)?, seconds("budget", budget)?);
            rate.map_err(|error| raised(error.into()))
        });
        let config = ClientConfig::default().priority(priority).rate(rate.transpose()?);
        let opened = py.detach(|| dispatcher.real_time_with(config));
        Ok(Client(Owned::new(Arc::new(opened.map_err(raised)?))))
    }

    /// Opens a best-effort client.
    #[pyo3(signature = (weight, priority, capacity, window))]
    fn best_effort(
        &self,
        py: Python<'_>,
        weight: u32,
        priority: i32,
        capacity: Option<usize>,
        window: Option<u64>,
    ) -> PyResult<Client> {
        let dispatcher = self.dispatcher.get()?;
        let config = config(weight, priority, capacity, window)?;
        let opened = py.detach(|| dispatcher.best_effort(config));
        Ok(Client(Owned::new(Arc::new(opened.map_err(raised)?))))
    }

    /// Counters since the device was opened.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dispatcher = self.dispatcher.get()?;
        let stats = py.detach(|| dispatcher.stats()).map_err(raised)?;
        let counters = PyDict::new(py);
        counters.set_item("preemptions", stats.preemptions)?;
        counters.set_item("rt_finished", stats.rt_finished)?;
        counters.set_item("padded_launches", stats.padded_launches)?;
        counters.set_item("padded_blocks", stats.padded_blocks)?;
        counters.set_item("retries", stats.retries)?;
        counters.set_item("abandoned", stats.abandoned)?;
        Ok(counters)
    }

    /// Starts to record what runs when.
    fn begin_trace(&self, py: Python<'_>) -> PyResult<()> {
        let dispatcher = self.dispatcher.get()?;
        py.detach(|| dispatcher.begin_trace()).map_err(raised)
    }

    /// Stops recording, and returns a file for Perfetto.
    fn end_trace(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let dispatcher = self.dispatcher.get()?;
        py.detach(|| dispatcher.end_trace()).map_err(raised)
    }

    /// Ends the dispatcher, and waits for what runs.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let dispatcher: Arc<reef_any::Dispatcher> = (**self.dispatcher.get()?).clone();
        in_thread(py, move || dispatcher.close())
    }
}

/// Configuration of a best-effort client.
pub(crate) fn config(
    weight: u32,
    priority: i32,
    capacity: Option<usize>,
    window: Option<u64>,
) -> PyResult<ClientConfig> {
    let mut queue = Config::default();
    if let Some(capacity) = capacity {
        queue = queue.capacity(capacity);
    }
    if let Some(window) = window {
        queue = queue.window(window);
    }
    if weight == 0 {
        return Err(raised(Fault::invalid("weight must be at least 1, got 0")));
    }
    Ok(ClientConfig::default().queue(queue).weight(weight).priority(priority))
}
