//! Inputs and outputs of a network, as Python sees them.

use numpy::PyArrayDescr;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PySlice, PyTuple};
use reef::models::{Extent, Ports, Texts};
use reef::tensor::Element;
use std::sync::Arc;

/// Name, shape and element type of an input or output. Data decide about a size of -1.
pub(crate) type PortInfo = (String, Vec<i64>, String);

/// An input or output.
pub(crate) struct PortSpec {
    pub(crate) name: String,
    pub(crate) dims: Vec<usize>,
    pub(crate) element: Element,
    /// First byte, among all inputs or outputs.
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    /// Axis whose size data decide, and the first byte of that size: an int64.
    pub(crate) bound: Option<(usize, usize)>,
    descr: PyOnceLock<Py<PyArrayDescr>>,
    /// Set if its int64 are places of texts, which Python sees in their place.
    texts: Option<Arc<Texts>>,
    table: PyOnceLock<Py<PyAny>>,
}

impl PortSpec {
    pub(crate) fn of(ports: &Ports) -> Vec<Self> {
        let spec = |(offset, port): (usize, &reef::models::Port)| Self {
            name: port.name.clone(),
            dims: port.spec.dims.clone(),
            element: port.spec.element,
            offset,
            bytes: port.spec.bytes(),
            bound: match port.extent {
                Extent::Bounded { axis, .. } => ports.size_of(port).map(|offset| (axis, offset)),
                Extent::Fixed | Extent::Size | Extent::Check => None,
            },
            descr: PyOnceLock::new(),
            texts: port.texts.clone(),
            table: PyOnceLock::new(),
        };
        ports.iter().map(spec).collect()
    }

    pub(crate) fn info(&self) -> PortInfo {
        let mut dims: Vec<i64> = self.dims.iter().map(|&size| size as i64).collect();
        if let Some((axis, _)) = self.bound {
            dims[axis] = -1;
        }
        let kind = if self.is_text() { "str".into() } else { self.element.to_string() };
        (self.name.clone(), dims, kind)
    }

    pub(crate) fn is_text(&self) -> bool {
        self.texts.is_some()
    }

    /// The `TextTable` of its texts, which is made for the first request; `None` if it is of
    /// numbers.
    pub(crate) fn table<'py>(&self, py: Python<'py>) -> PyResult<Option<&Bound<'py, PyAny>>> {
        let Some(texts) = &self.texts else { return Ok(None) };
        let make = || -> PyResult<Py<PyAny>> {
            let module = py.import(intern!(py, "reef._network"))?;
            let texts = PyList::new(py, texts.all())?;
            Ok(module.call_method1(intern!(py, "TextTable"), (texts,))?.unbind())
        };
        let made = self.table.get_or_try_init(py, make)?;
        Ok(Some(made.bind(py)))
    }

    /// Texts at the places that an array holds; the array itself if it is of numbers.
    pub(crate) fn decoded<'py>(&self, array: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = array.py();
        match self.table(py)? {
            None => Ok(array),
            Some(table) => table.call_method1(intern!(py, "texts"), (array,)),
        }
    }

    /// As much of an array as a request made, which `read` reads from a byte on.
    pub(crate) fn cut<'py>(
        &self,
        array: Bound<'py, PyAny>,
        read: impl FnOnce(usize, &mut [u8; 8]) -> PyResult<()>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some((axis, offset)) = self.bound else { return Ok(array) };
        let (py, mut size) = (array.py(), [0; 8]);
        read(offset, &mut size)?;
        let size = i64::from_le_bytes(size).clamp(0, self.dims[axis] as i64);
        let part = PySlice::new(py, 0, size as isize, 1);
        let all = std::iter::repeat_with(|| PySlice::full(py)).take(axis);
        array.get_item(PyTuple::new(py, all.chain([part]).collect::<Vec<_>>())?)
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
