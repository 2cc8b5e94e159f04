//! Devices and their clients.

use crate::client::Client;
use crate::errors::raised;
use crate::network::Network;
use crate::owned::Owned;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use reef::ClientConfig;
use reef::models::Model;
use std::path::PathBuf;

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
pub(crate) fn open(py: Python<'_>, name: &str, scheduler: &str) -> PyResult<Device> {
    let (device, dispatcher) = py
        .detach(|| {
            let device = reef_any::Device::open(name)?;
            let dispatcher = device.dispatcher(scheduler)?;
            Ok((device, dispatcher))
        })
        .map_err(raised)?;
    Ok(Device { device: Owned::new(device), dispatcher: Owned::new(dispatcher) })
}

/// An open device.
#[pyclass(frozen, module = "reef._reef")]
pub(crate) struct Device {
    dispatcher: Owned<reef_any::Dispatcher>,
    device: Owned<reef_any::Device>,
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
    #[pyo3(signature = (what, batch, input_size, weights, seed, instances))]
    fn load(
        &self,
        py: Python<'_>,
        what: PathBuf,
        batch: Option<usize>,
        input_size: Option<usize>,
        weights: Option<PathBuf>,
        seed: u64,
        instances: usize,
    ) -> PyResult<Network> {
        let device = self.device.get()?;
        let loaded = py.detach(|| {
            let model = Model::open(what).input_size(input_size).batch(batch).seed(seed);
            let model = match weights {
                Some(file) => model.weights(file).read()?,
                None => model.read()?,
            };
            Ok((model.name().to_owned(), device.load(&model)?))
        });
        let (name, network) = loaded.map_err(raised)?;
        Network::new(name, network, instances)
    }

    /// Loads a network of an ONNX file's bytes.
    fn load_onnx(
        &self,
        py: Python<'_>,
        bytes: &[u8],
        name: &str,
        batch: Option<usize>,
        input_size: Option<usize>,
        instances: usize,
    ) -> PyResult<Network> {
        let device = self.device.get()?;
        let loaded = py.detach(|| {
            let model = Model::from_onnx(bytes, name).input_size(input_size).batch(batch).read()?;
            device.load(&model)
        });
        Network::new(name.to_owned(), loaded.map_err(raised)?, instances)
    }

    /// Opens a client: a real-time or a best-effort one.
    fn client(
        &self,
        py: Python<'_>,
        is_real_time: bool,
        weight: u32,
        priority: i32,
    ) -> PyResult<Client> {
        let dispatcher = self.dispatcher.get()?;
        let opened = py.detach(|| {
            if is_real_time {
                return dispatcher.real_time(priority);
            }
            dispatcher.best_effort(ClientConfig::default().weight(weight).priority(priority))
        });
        Ok(Client(Owned::new(opened.map_err(raised)?)))
    }

    /// Counters since the device was opened.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.dispatcher.get()?.stats().map_err(raised)?;
        let counters = PyDict::new(py);
        counters.set_item("preemptions", stats.preemptions)?;
        counters.set_item("rt_finished", stats.rt_finished)?;
        counters.set_item("padded_launches", stats.padded_launches)?;
        counters.set_item("padded_blocks", stats.padded_blocks)?;
        counters.set_item("retries", stats.retries)?;
        Ok(counters)
    }

    /// Ends the dispatcher, and waits for what runs.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let dispatcher = self.dispatcher.get()?;
        py.detach(|| dispatcher.close());
        Ok(())
    }
}
