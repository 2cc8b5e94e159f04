//! Networks, and memory of their requests that users fill.

use crate::errors::{UnsupportedError, raised};
use crate::memory::array::Keep;
use crate::memory::pool::{Lease, Pool};
use crate::memory::ports::PortInfo;
use crate::owned::Owned;
use crate::request::arrays;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use reef_any::{End, Fault, Place, Side};
use std::sync::Arc;

/// A network, with memory for several inferences.
#[pyclass(frozen, module = "reef._reef")]
pub(crate) struct Network {
    name: String,
    pub(crate) pool: Owned<Arc<Pool>>,
}

impl Network {
    pub(crate) fn new(
        name: String,
        network: reef_any::Network,
        instances: usize,
    ) -> PyResult<Self> {
        if instances < 1 {
            let text = format!("instances must be at least 1, got {instances}");
            return Err(raised(Fault::invalid(text)));
        }
        let pool = Owned::new(Arc::new(Pool::new(name.clone(), network, instances)));
        Ok(Self { name, pool })
    }
}

#[pymethods]
impl Network {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Names, shapes and element types of the inputs.
    fn inputs(&self) -> PyResult<Vec<PortInfo>> {
        Ok(self.pool.get()?.inputs.iter().map(|port| port.info()).collect())
    }

    /// Names, shapes and element types of the outputs.
    fn outputs(&self) -> PyResult<Vec<PortInfo>> {
        Ok(self.pool.get()?.outputs.iter().map(|port| port.info()).collect())
    }

    /// Takes memory of a request.
    fn slot(&self, py: Python<'_>, on_host: Option<bool>) -> PyResult<Slot> {
        let pool = self.pool.get()?;
        let side = match (pool.place(), on_host) {
            (Place::Host, Some(false)) => {
                return Err(UnsupportedError::new_err("the software device has the host's memory"));
            }
            (Place::Private, _) => {
                let text = "memory of this device can't be used in place";
                return Err(UnsupportedError::new_err(text));
            }
            (Place::Host, _) | (_, Some(true)) => Side::Host,
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
