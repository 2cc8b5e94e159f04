//! Networks, and memory of their requests that users fill.

use crate::errors::{UnsupportedError, raised};
use crate::memory::array::Keep;
use crate::memory::pool::{Lease, Pool};
use crate::memory::ports::{PortInfo, PortSpec};
use crate::model_args::{ModelArgs, Switch};
use crate::owned::{Owned, SlowDrop};
use crate::request::arrays;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use reef::models::onnx::{Declared, DeclaredPort, DeclaredSize};
use reef::tensor::Element;
use reef_any::{End, Fault, MemoryLocation, Side};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Arguments that a network was loaded with, and what its file declares.
pub(crate) struct Origin {
    pub(crate) args: ModelArgs,
    pub(crate) declared: Declared,
    /// In the file's order.
    pub(crate) switches: Vec<Switch>,
}

/// A network, with memory for several inferences.
#[pyclass(frozen, module = "reef._reef")]
pub(crate) struct Network {
    name: String,
    instances: usize,
    origin: Arc<Origin>,
    pub(crate) pool: Owned<SlowDrop<Arc<Pool>>>,
}

impl Network {
    pub(crate) fn new(
        name: String,
        network: reef_any::Network,
        instances: usize,
        origin: Arc<Origin>,
    ) -> PyResult<Self> {
        if instances < 1 {
            let text = format!("instances must be at least 1, got {instances}");
            return Err(raised(Fault::invalid(text)));
        }
        let pool = Arc::new(Pool::new(name.clone(), network, instances));
        let pool = Owned::new(SlowDrop::new(pool));
        Ok(Self { name, instances, origin, pool })
    }
}

impl Network {
    /// Ports, with -1 for sizes that requests choose.
    fn infos(&self, ports: &[PortSpec], declared: &[DeclaredPort]) -> Vec<PortInfo> {
        let is_open = self.is_open();
        let info = |port: &PortSpec| {
            let (name, mut sizes, dtype) = port.info();
            if let Some(declared) = declared.iter().find(|of| is_open && of.name == name) {
                open(&mut sizes, declared);
            }
            (name, sizes, dtype)
        };
        ports.iter().map(info).collect()
    }
}

/// Sets sizes to -1 that the file leaves open.
fn open(sizes: &mut [i64], declared: &DeclaredPort) {
    let same_rank = declared.sizes.as_ref().filter(|declared| declared.len() == sizes.len());
    for (size, declared) in sizes.iter_mut().zip(same_rank.into_iter().flatten()) {
        if matches!(declared, DeclaredSize::Open(_)) {
            *size = -1;
        }
    }
}

/// Returns whether an input is the one that a file declares, or a tensor of a sequence.
fn is_of(declared: &DeclaredPort, name: &str) -> bool {
    let is_number = |place: &str| place.parse::<usize>().is_ok();
    match name.strip_prefix(&declared.name) {
        Some("") => true,
        Some(rest) => declared.is_sequence && rest.strip_prefix('.').is_some_and(is_number),
        None => false,
    }
}

#[pymethods]
impl Network {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// True if requests choose sizes, which are -1 in shapes.
    fn is_open(&self) -> bool {
        self.origin.declared.is_open()
    }

    /// Names, shapes and element types of the inputs, in the file's order.
    fn inputs(&self) -> PyResult<Vec<PortInfo>> {
        let declared = &self.origin.declared.inputs;
        let mut infos = self.infos(&self.pool.get()?.inputs, declared);
        for switch in &self.origin.switches {
            let sizes = vec![1; switch.dims.len()];
            let info = (switch.name.clone(), sizes, Element::Bool.to_string());
            // A sequence before it is any number of inputs.
            let next = declared.get(switch.place + 1..).unwrap_or_default();
            let place = infos.iter().position(|info| next.iter().any(|port| is_of(port, &info.0)));
            infos.insert(place.unwrap_or(infos.len()), info);
        }
        Ok(infos)
    }

    /// Names of inputs of one truth value that decide about shapes.
    fn switches(&self) -> Vec<String> {
        self.origin.switches.iter().map(|switch| switch.name.clone()).collect()
    }

    /// Names, shapes and element types of the outputs.
    fn outputs(&self) -> PyResult<Vec<PortInfo>> {
        Ok(self.infos(&self.pool.get()?.outputs, &self.origin.declared.outputs))
    }

    /// Shapes of inputs for which it is prepared, without switches.
    fn shapes(&self) -> PyResult<Vec<(String, Vec<usize>)>> {
        let inputs = &self.pool.get()?.inputs;
        Ok(inputs.iter().map(|port| (port.name.clone(), port.dims.clone())).collect())
    }

    /// Loads the network for these shapes of inputs, and values of switches.
    fn resized(
        &self,
        py: Python<'_>,
        shapes: HashMap<String, Vec<usize>>,
        switches: HashMap<String, bool>,
    ) -> PyResult<Self> {
        let (pool, origin) = (self.pool.get()?, &self.origin);
        let value = |switch: &Switch| switch.value(switches.get(&switch.name) == Some(&true));
        let values: BTreeMap<_, _> = origin.switches.iter().map(value).collect();
        let made = py.detach(|| {
            let model = origin.args.opened()?.shapes(shapes).values(&values).read()?;
            pool.resized(&model)
        });
        Self::new(self.name.clone(), made.map_err(raised)?, self.instances, origin.clone())
    }

    /// Takes memory of a request.
    fn slot(&self, py: Python<'_>, on_host: Option<bool>) -> PyResult<Slot> {
        let pool = self.pool.get()?;
        let side = match (pool.location(), on_host) {
            (MemoryLocation::Host, Some(false)) => {
                return Err(UnsupportedError::new_err("the software device has the host's memory"));
            }
            (MemoryLocation::Private, _) => {
                let text = "memory of this device can't be used in place";
                return Err(UnsupportedError::new_err(text));
            }
            (MemoryLocation::Host, _) | (_, Some(true)) => Side::Host,
            _ => Side::Device,
        };
        let lease = Arc::new(pool.take(py)?);
        Ok(Slot { lease: Owned::new(lease), side })
    }
}

/// Memory of a request, which a user fills and reads in place.
#[pyclass(frozen, module = "reef._reef")]
pub(crate) struct Slot {
    pub(crate) lease: Owned<Arc<Lease>>,
    pub(crate) side: Side,
}

impl Slot {
    fn arrays<'py>(&self, py: Python<'py>, end: End) -> PyResult<Bound<'py, PyTuple>> {
        let lease = self.lease.get()?;
        let ports = if end == End::Inputs { &lease.pool.inputs } else { &lease.pool.outputs };
        let keep: Keep = lease.clone();
        PyTuple::new(py, arrays(py, ports, lease.memory(end, self.side), &keep)?)
    }
}

#[pymethods]
impl Slot {
    /// Arrays in which the next request finds its inputs.
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.arrays(py, End::Inputs)
    }

    /// Arrays in which each request leaves its outputs.
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.arrays(py, End::Outputs)
    }
}
