//! Inputs and outputs of a network, as Python sees them.

use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use reef::models::Ports;
use reef::tensor::Element;

/// Name, shape and element type of an input or output.
pub(crate) type PortInfo = (String, Vec<usize>, String);

/// An input or output.
pub(crate) struct PortSpec {
    pub(crate) name: String,
    pub(crate) dims: Vec<usize>,
    pub(crate) element: Element,
    /// First byte, among all inputs or outputs.
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    descr: PyOnceLock<Py<PyArrayDescr>>,
}

impl PortSpec {
    pub(crate) fn of(ports: &Ports) -> Vec<Self> {
        let spec = |(offset, port): (usize, &reef::models::Port)| Self {
            name: port.name.clone(),
            dims: port.spec.dims.clone(),
            element: port.spec.element,
            offset,
            bytes: port.spec.bytes(),
            descr: PyOnceLock::new(),
        };
        ports.iter().map(spec).collect()
    }

    pub(crate) fn info(&self) -> PortInfo {
        (self.name.clone(), self.dims.clone(), self.element.to_string())
    }

    /// Name of its type in NumPy, which has no bfloat16: that is its bits.
    pub(crate) fn dtype(&self) -> String {
        dtype(self.element)
    }

    /// Its type in NumPy, which is imported for the first one.
    pub(crate) fn descr<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyArrayDescr>> {
        let made = self.descr.get_or_try_init(py, || descr(py, self.element).map(Bound::unbind))?;
        Ok(made.bind(py))
    }
}

/// Name of an element type in NumPy.
pub(crate) fn dtype(element: Element) -> String {
    match element {
        Element::BF16 => "uint16".into(),
        other => other.to_string(),
    }
}

/// The element type in NumPy.
pub(crate) fn descr(py: Python<'_>, element: Element) -> PyResult<Bound<'_, PyArrayDescr>> {
    PyArrayDescr::new(py, dtype(element))
}
