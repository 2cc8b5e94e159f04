//! Clusters: several devices of one backend, and clients that are placed on them.

use crate::device::config;
use crate::errors::raised;
use crate::memory::array::{bytes_of, zeros};
use crate::memory::ports::{PortInfo, PortSpec};
use crate::model_args::ModelArgs;
use crate::owned::{Owned, SlowDrop};
use crate::request::in_thread;
use crate::time::{Timing, timing};
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use reef::Class;
use reef::cluster::Demand;
use reef_any::{Fault, Reason};
use std::sync::Arc;

/// Name of its hardware, clients, bytes that are promised, and the reason for which it is lost.
type NodeFacts = (String, u32, u64, Option<String>);

/// Opens several devices, and starts a dispatcher on each.
#[pyfunction]
pub(crate) fn open_cluster(py: Python<'_>, names: &str, scheduler: &str) -> PyResult<Cluster> {
    let cluster = py.detach(|| reef_any::Cluster::open(names, scheduler)).map_err(raised)?;
    Ok(Cluster(Owned::new(SlowDrop::new(cluster))))
}

/// Several devices.
#[pyclass(frozen, module = "reef._reef")]
pub(crate) struct Cluster(Owned<SlowDrop<reef_any::Cluster>>);

#[pymethods]
impl Cluster {
    /// State of each device.
    fn nodes(&self) -> PyResult<Vec<NodeFacts>> {
        let nodes = self.0.get()?.nodes().into_iter();
        Ok(nodes.map(|node| (node.name, node.clients, node.promised, node.lost)).collect())
    }

    /// Promises at most that much of a device's memory from now on.
    fn limit_memory(&self, node: usize, bytes: u64) -> PyResult<()> {
        self.0.get()?.limit_memory(node, bytes).map_err(raised)
    }

    /// Gives a device up.
    fn mark_lost(&self, py: Python<'_>, node: usize, why: &str) -> PyResult<()> {
        let cluster = self.0.get()?;
        py.detach(|| cluster.mark_lost(node, why)).map_err(raised)
    }

    /// Makes a network known.
    fn load(&self, py: Python<'_>, model: ModelArgs) -> PyResult<ClusterNetwork> {
        let cluster = self.0.get()?;
        let loaded = py.detach(|| Ok(cluster.load(model.read()?))).map_err(raised)?;
        let ports = [PortSpec::of(loaded.inputs()), PortSpec::of(loaded.outputs())];
        if let Some(port) = ports.iter().flatten().find(|port| port.is_text()) {
            let text = format!("{} is of texts, which no network of a cluster has", port.name);
            return Err(raised(Fault::new(Reason::Unsupported, text)));
        }
        Ok(ClusterNetwork { ports: Arc::new(ports), network: Owned::new(loaded) })
    }

    /// Places a client.
    #[allow(clippy::too_many_arguments)] // Python names them
    fn place(
        &self,
        py: Python<'_>,
        network: &ClusterNetwork,
        is_real_time: bool,
        load: f64,
        memory: u64,
        moves: bool,
        weight: u32,
        priority: i32,
    ) -> PyResult<Placed> {
        if !(0.0..=1.0).contains(&load) {
            let text = format!("load must be from 0 to 1, got {load}");
            return Err(raised(Fault::invalid(text)));
        }
        let (cluster, loaded) = (self.0.get()?, network.network.get()?);
        let demand = Demand::default().bytes(memory).load(load);
        let demand = if moves { demand } else { demand.stays() };
        let config = config(weight, priority, None, None)?;
        let class = if is_real_time { Class::RealTime } else { Class::BestEffort };
        let placed = py.detach(|| cluster.place(class, loaded, demand, config));
        let placed = placed.map_err(raised)?;
        Ok(Placed { ports: network.ports.clone(), client: Owned::new(Arc::new(placed)) })
    }
}

/// A network that a cluster's devices can load.
#[pyclass(frozen, module = "reef._reef")]
pub(crate) struct ClusterNetwork {
    ports: Arc<[Vec<PortSpec>; 2]>,
    network: Owned<reef_any::ClusterNetwork>,
}

#[pymethods]
impl ClusterNetwork {
    #[getter]
    fn name(&self) -> PyResult<&str> {
        Ok(self.network.get()?.name())
    }

    /// Names, shapes and element types of the inputs.
    fn inputs(&self) -> Vec<PortInfo> {
        self.ports[0].iter().map(PortSpec::info).collect()
    }

    /// Names, shapes and element types of the outputs.
    fn outputs(&self) -> Vec<PortInfo> {
        self.ports[1].iter().map(PortSpec::info).collect()
    }
}

/// A client on one device of a cluster.
#[pyclass(frozen, module = "reef._reef")]
pub(crate) struct Placed {
    ports: Arc<[Vec<PortSpec>; 2]>,
    client: Owned<Arc<reef_any::PlacedClient>>,
}

#[pymethods]
impl Placed {
    /// Runs one inference of arrays that fit the inputs. Returns its outputs and its times.
    fn run<'py>(
        &self,
        py: Python<'py>,
        arrays: Vec<Bound<'py, PyUntypedArray>>,
    ) -> PyResult<(Bound<'py, PyTuple>, Timing)> {
        let (client, [inputs, outputs]) = (self.client.get()?, &*self.ports);
        let bytes = client.bytes();
        let mut given = vec![0; bytes[0]];
        for (port, array) in inputs.iter().zip(&arrays) {
            let bytes = array.getattr("nbytes")?.extract::<usize>()?;
            if bytes != port.bytes || !numpy::PyUntypedArrayMethods::is_c_contiguous(array) {
                let (name, want) = (&port.name, port.bytes);
                let text = format!("input {name} must have {want} B in one piece, got {bytes}");
                return Err(raised(Fault::invalid(text)));
            }
            // SAFETY: its size was compared; it is only read.
            given[port.offset..][..bytes].copy_from_slice(unsafe { &*bytes_of(array, bytes) });
        }
        let client = client.clone();
        let run = move || {
            let mut found = vec![0; bytes[1]];
            client.run(&given, &mut found).map(|times| (times, found))
        };
        let (times, found) = in_thread(py, run)?.map_err(raised)?;
        let array = |port: &PortSpec| {
            let array = zeros(port.descr(py)?, &port.dims)?;
            let bytes = &found[port.offset..][..port.bytes];
            // SAFETY: it was made just now, and nothing else has it.
            unsafe { &mut *bytes_of(&array, port.bytes) }.copy_from_slice(bytes);
            port.cut(array.into_any(), |at, size| {
                size.copy_from_slice(&found[at..][..8]);
                Ok(())
            })
        };
        let arrays = outputs.iter().map(array).collect::<PyResult<Vec<_>>>()?;
        Ok((PyTuple::new(py, arrays)?, timing(times)))
    }

    /// Number of the device that it is on.
    fn node(&self) -> PyResult<usize> {
        Ok(self.client.get()?.node())
    }

    /// Number of its moves.
    fn moves(&self) -> PyResult<u32> {
        Ok(self.client.get()?.moves())
    }

    /// Ends it, after a request that runs.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let client = self.client.get()?.clone();
        in_thread(py, move || client.close())
    }
}
