//! Arrays in memory of a request, for other libraries.

use crate::errors::{UnsupportedError, raised};
use crate::memory::dlpack::{Device, Shared, capsule};
use crate::memory::ports::{PortSpec, descr};
use crate::owned::Owned;
use numpy::npyffi::{self, NPY_ARRAY_WRITEABLE, PY_ARRAY_API, npy_intp};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use reef::tensor::Element;
use reef_any::{Memory, MemoryLocation};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

/// Owner that keeps memory from being used for anything else.
pub(crate) type Keep = Arc<dyn Any + Send + Sync>;

/// An array in memory of a request.
#[pyclass(frozen, module = "reef")]
pub(crate) struct Array {
    dims: Vec<usize>,
    element: Element,
    offset: usize,
    bytes: usize,
    memory: Owned<(Memory, Keep)>,
}

impl Array {
    /// The array of a port in memory with all inputs or outputs.
    pub(crate) fn of(port: &PortSpec, memory: &Memory, keep: Keep) -> Self {
        Self {
            dims: port.dims.clone(),
            element: port.element,
            offset: port.offset,
            bytes: port.bytes,
            memory: Owned::new((memory.clone(), keep)),
        }
    }

    /// Its address and place, if its type and shape are these and its values lie on the host or at
    /// `place`.
    pub(crate) fn fits(
        &self,
        element: Element,
        dims: &[usize],
        place: MemoryLocation,
    ) -> PyResult<Option<(u64, MemoryLocation)>> {
        let own = self.memory.get()?.0.location();
        let fits = self.element == element && self.dims == dims;
        let is_near = own == MemoryLocation::Host || own == place;
        if fits && is_near { Ok(Some((self.address()?, own))) } else { Ok(None) }
    }

    fn device(&self) -> PyResult<Device> {
        Device::of(self.memory.get()?.0.location())
            .ok_or_else(|| UnsupportedError::new_err("no DLPack for memory of this device"))
    }

    fn address(&self) -> PyResult<u64> {
        Ok(self.memory.get()?.0.address() + self.offset as u64)
    }
}

#[pymethods]
impl Array {
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.dims)
    }

    #[getter]
    fn dtype(&self) -> String {
        self.element.to_string()
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes
    }

    /// Name of the place of its memory.
    #[getter]
    fn device_name(&self) -> PyResult<String> {
        Ok(match self.memory.get()?.0.location() {
            MemoryLocation::Host => "cpu".into(),
            _ => self.device()?.name(),
        })
    }

    fn __dlpack_device__(&self) -> PyResult<(i32, i32)> {
        Ok(self.device()?.parts())
    }

    /// Its values were computed before it was returned, so no stream has to wait.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = stream;
        let device = self.device()?;
        if let Some((kind, ordinal)) = dl_device
            && Device::new(kind, ordinal) != device
        {
            let other = Device::new(kind, ordinal).name();
            let text = format!("the array is on {}, not on {other}: use numpy()", device.name());
            return Err(PyBufferError::new_err(text));
        }
        if copy == Some(true) {
            return Err(PyBufferError::new_err(
                "the array is not copied: copy what it is made into",
            ));
        }
        let keep = Box::new(Owned::new(self.memory.get()?.1.clone()));
        let address = if self.bytes == 0 { 0 } else { self.address()? };
        let shared = Shared { address, device, element: self.element, dims: &self.dims, keep };
        capsule(py, shared, max_version.is_some_and(|(major, _)| major >= 1))
    }

    /// The array for NumPy: the same memory if it is the host's, else a copy of it.
    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyUntypedArray>> {
        let (py, this) = (slf.py(), slf.get());
        let (memory, _) = this.memory.get()?;
        let descr = descr(py, this.element)?;
        if memory.location() == MemoryLocation::Host && this.bytes > 0 {
            // SAFETY: the memory is as large as the shape says, and there as long as its base.
            return unsafe { view(&descr, &this.dims, this.address()?, slf.as_any()) };
        }
        let array = zeros(&descr, &this.dims)?;
        // SAFETY: it was made above, and nothing else has it.
        let bytes = unsafe { &mut *bytes_of(&array, this.bytes) };
        py.detach(|| memory.read(this.offset, bytes)).map_err(raised)?;
        Ok(array)
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.dims.first().copied();
        first.ok_or_else(|| {
            pyo3::exceptions::PyTypeError::new_err("len() of an array of no dimensions")
        })
    }

    fn __repr__(&self) -> PyResult<String> {
        let (dtype, dims, place) =
            (self.dtype(), crate::memory::dlpack::tuple(&self.dims), self.device_name()?);
        Ok(format!("<reef.Array {dtype} {dims} on {place}>"))
    }

    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let is_copy = slf.get().memory.get()?.0.location() != MemoryLocation::Host;
        if is_copy && copy == Some(false) {
            let text = "an array of a GPU can't be one of NumPy without a copy";
            return Err(pyo3::exceptions::PyValueError::new_err(text));
        }
        let array = Self::numpy(slf)?.into_any();
        let must_copy = copy == Some(true) && !is_copy;
        let Some(dtype) = dtype.filter(|dtype| !dtype.is_none()) else {
            return if must_copy { array.call_method0("copy") } else { Ok(array) };
        };
        let options = PyDict::new(slf.py());
        options.set_item("copy", must_copy)?;
        let made = array.call_method("astype", (dtype,), Some(&options))?;
        if copy == Some(false) && !made.is(&array) {
            let text = "an array of another type can't be made without a copy";
            return Err(pyo3::exceptions::PyValueError::new_err(text));
        }
        Ok(made)
    }
}

/// Reads from byte `offset` on. A driver copies without the interpreter's lock, as it may wait.
pub(crate) fn read_memory(
    py: Python<'_>,
    memory: &Memory,
    offset: usize,
    bytes: &mut [u8],
) -> PyResult<()> {
    let read = match memory.location() {
        MemoryLocation::Host => memory.read(offset, bytes),
        _ => py.detach(|| memory.read(offset, bytes)),
    };
    read.map_err(raised)
}

/// A new array of NumPy.
pub(crate) fn zeros<'py>(
    descr: &Bound<'py, numpy::PyArrayDescr>,
    dims: &[usize],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = descr.py();
    let mut sizes: Vec<npy_intp> = dims.iter().map(|&size| size as npy_intp).collect();
    // SAFETY: there are as many sizes as is said, and the call takes a reference to the type.
    unsafe {
        let descr = descr.clone().into_dtype_ptr();
        let array =
            PY_ARRAY_API.PyArray_Zeros(py, sizes.len() as i32, sizes.as_mut_ptr(), descr, 0);
        Ok(Bound::from_owned_ptr_or_err(py, array)?.cast_into_unchecked())
    }
}

/// Memory of `base` as an array of NumPy.
///
/// # Safety
///
/// There are as many bytes at `address` as the type and the sizes say, for as long as `base` lives.
unsafe fn view<'py>(
    descr: &Bound<'py, numpy::PyArrayDescr>,
    dims: &[usize],
    address: u64,
    base: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = descr.py();
    let mut sizes: Vec<npy_intp> = dims.iter().map(|&size| size as npy_intp).collect();
    // SAFETY: as many bytes as type and sizes say are at `address` while `base` lives: `view`
    // demands it. The array keeps `base`. Both calls take the references that they are given.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
            descr.clone().into_dtype_ptr(),
            sizes.len() as i32,
            sizes.as_mut_ptr(),
            std::ptr::null_mut(),
            address as *mut _,
            NPY_ARRAY_WRITEABLE,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        let done =
            PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base.clone().into_ptr());
        if done < 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(array.cast_into_unchecked())
    }
}

/// The first bytes of an array of NumPy, which lies in one piece and has as many.
pub(crate) fn bytes_of(array: &Bound<'_, PyUntypedArray>, bytes: usize) -> *mut [u8] {
    // SAFETY: the structure is NumPy's, of an array that is there.
    let first: *mut u8 = unsafe { (*array.as_array_ptr()).fields.data.cast() };
    let first = if bytes == 0 { NonNull::dangling().as_ptr() } else { first };
    std::ptr::slice_from_raw_parts_mut(first, bytes)
}
