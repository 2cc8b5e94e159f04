//! Networks.

use crate::errors::raised;
use crate::owned::Owned;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use reef::models::Ports;
use reef_any::Fault;

/// Name, shape and element type of an input or output.
type PortInfo = (String, Vec<usize>, String);

/// A network with memory for one inference at a time.
#[pyclass(frozen, module = "reef._reef")]
pub(crate) struct Network {
    name: String,
    network: Owned<reef_any::Network>,
}

impl Network {
    pub(crate) fn new(name: String, network: reef_any::Network) -> Self {
        Self { name, network: Owned::new(network) }
    }

    pub(crate) fn get(&self) -> PyResult<&reef_any::Network> {
        self.network.get()
    }
}

fn describe(ports: &Ports) -> Vec<PortInfo> {
    let info = |port: &reef::models::Port| {
        (port.name.clone(), port.spec.dims.clone(), port.spec.element.to_string())
    };
    ports.iter().map(|(_, port)| info(port)).collect()
}

/// Place and length in bytes of one of them.
fn place(ports: &Ports, index: usize) -> PyResult<(usize, usize)> {
    let found = ports.get(index).map(|(offset, port)| (offset, port.spec.bytes()));
    found.ok_or_else(|| raised(Fault::invalid(format!("no input or output {index}"))))
}

#[pymethods]
impl Network {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Names, shapes and element types of the inputs.
    fn inputs(&self) -> PyResult<Vec<PortInfo>> {
        Ok(describe(self.get()?.inputs()))
    }

    /// Names, shapes and element types of the outputs.
    fn outputs(&self) -> PyResult<Vec<PortInfo>> {
        Ok(describe(self.get()?.outputs()))
    }

    /// Makes another one with the same weights.
    fn instance(&self, py: Python<'_>) -> PyResult<Self> {
        let network = self.get()?;
        let made = py.detach(|| network.instance());
        Ok(Self::new(self.name.clone(), made.map_err(raised)?))
    }

    /// Writes the bytes of one input.
    fn write(&self, index: usize, data: PyReadonlyArray1<'_, u8>) -> PyResult<()> {
        let network = self.get()?;
        let (offset, bytes) = place(network.inputs(), index)?;
        let data = data.as_slice()?;
        if data.len() != bytes {
            let text = format!("input {index} must have {bytes} B, got {}", data.len());
            return Err(raised(Fault::invalid(text)));
        }
        network.write(offset, data).map_err(raised)
    }

    /// Reads the bytes of one output.
    fn read<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let network = self.get()?;
        let (offset, bytes) = place(network.outputs(), index)?;
        let array = PyArray1::<u8>::zeros(py, bytes, false);
        network.read(offset, array.readwrite().as_slice_mut()?).map_err(raised)?;
        Ok(array)
    }
}
