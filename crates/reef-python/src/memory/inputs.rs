//! Inputs of a request: from objects of Python into memory of the request.
//!
//! *In*: arrays of NumPy, and of other libraries by DLPack. *Out*: all inputs on one side of the
//! instance. *Invariant*: what is read was there before: the request waits for its producer, as
//! DLPack has it. Anything unusual is Python's, in `python/reef/_network.py`.

use crate::errors::{InvalidError, raised};
use crate::memory::array::Array;
use crate::memory::dlpack::{Borrowed, Device, tuple};
use crate::memory::pool::Lease;
use crate::memory::ports::PortSpec;
use crate::time::TURN;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use parking_lot::Mutex;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use reef_any::{End, MemoryLocation, Side, Turn};
use std::thread;
use std::time::{Duration, Instant};

/// Time for which a thread that waits for a producer keeps its processor.
const SPIN: Duration = Duration::from_micros(200);
/// Time between two polls after that.
const POLL_INTERVAL: Duration = Duration::from_micros(20);

/// Refusal of an array whose capsule is of another place than the array says.
const ELSEWHERE: &str = "must be where it says, its DLPack is elsewhere";

/// An input that fits its port.
enum Input<'py> {
    Numpy(Bound<'py, PyUntypedArray>),
    Shared(Borrowed),
    /// One of ours, which has its values there.
    Own {
        address: u64,
        place: MemoryLocation,
        _keep: Bound<'py, Array>,
    },
}

impl Input<'_> {
    fn address(&self) -> u64 {
        match self {
            Self::Numpy(array) => {
                // SAFETY: the structure is NumPy's, of an array that is there.
                unsafe { (*array.as_array_ptr()).fields.data as u64 }
            }
            Self::Shared(shared) => shared.address(),
            Self::Own { address, .. } => *address,
        }
    }

    fn is_on_device(&self) -> bool {
        match self {
            Self::Numpy(_) => false,
            Self::Shared(shared) => !shared.device().is_host(),
            Self::Own { place, .. } => *place != MemoryLocation::Host,
        }
    }
}

/// Writes all inputs. Returns the side on which they are: the device's, if one was there.
pub(crate) fn write<'py>(
    lease: &Lease,
    turn: &mut Turn<'_>,
    values: &Bound<'py, PyTuple>,
    named: Option<&Bound<'py, PyDict>>,
) -> PyResult<Side> {
    let inputs = all(lease, values, named)?;
    let side = if inputs.iter().any(Input::is_on_device) { Side::Device } else { Side::Host };
    write_all(values.py(), lease, turn, side, &inputs)?;
    Ok(side)
}

/// Writes all inputs to this side, except for those that are there.
pub(crate) fn write_to<'py>(
    lease: &Lease,
    turn: &mut Turn<'_>,
    side: Side,
    values: &Bound<'py, PyTuple>,
    named: Option<&Bound<'py, PyDict>>,
) -> PyResult<()> {
    let inputs = all(lease, values, named)?;
    if side == Side::Host && inputs.iter().any(Input::is_on_device) {
        let text = "inputs of a slot on the host must be on the host, got one on a GPU";
        return Err(InvalidError::new_err(text));
    }
    write_all(values.py(), lease, turn, side, &inputs)
}

fn all<'py>(
    lease: &Lease,
    values: &Bound<'py, PyTuple>,
    named: Option<&Bound<'py, PyDict>>,
) -> PyResult<Vec<Input<'py>>> {
    let ports = &lease.pool.inputs;
    let has_named = named.is_some_and(|named| !named.is_empty());
    let values = if has_named || values.len() != ports.len() {
        in_order(lease, values, named)?
    } else {
        values.clone()
    };
    let mut inputs = Vec::with_capacity(ports.len());
    for (port, value) in ports.iter().zip(values.iter()) {
        inputs.push(input(lease, port, &value)?);
    }
    Ok(inputs)
}

fn write_all(
    py: Python<'_>,
    lease: &Lease,
    turn: &mut Turn<'_>,
    side: Side,
    inputs: &[Input<'_>],
) -> PyResult<()> {
    let ports = &lease.pool.inputs;
    let first = lease.memory(End::Inputs, side).address();
    for (at, (port, input)) in ports.iter().zip(inputs).enumerate() {
        let (begin, bytes) = (input.address(), port.bytes as u64);
        // Copies go one after the other, and one before this may change it.
        let is_changed = ports[..at].iter().zip(inputs).any(|(earlier, copied)| {
            let (to, size) = (first + earlier.offset as u64, earlier.bytes as u64);
            let overlaps = begin < to + size && to < begin.saturating_add(bytes);
            overlaps && size > 0 && bytes > 0 && copied.address() != to
        });
        if is_changed {
            return Err(refused(port, "must not be memory of a replaced input: copy it"));
        }
    }
    if inputs.iter().any(Input::is_on_device) {
        wait_until(py, || lease.network.has_arrived())?;
    }
    for (port, input) in ports.iter().zip(inputs) {
        match input {
            _ if port.bytes == 0 => {}
            // SAFETY: the owner says that it is memory of this device, as large as its shape and
            // type; it is there until `input` is dropped.
            _ if input.is_on_device() => unsafe { copy_in(py, turn, port, input.address()) }?,
            _ => {
                let first = input.address() as *const u8;
                // SAFETY: the owner says that it is there, and as large as its shape and type.
                let data = unsafe { std::slice::from_raw_parts(first, port.bytes) };
                copy_from_host(py, lease, side, port, data)?;
            }
        }
    }
    Ok(())
}

/// Copies an input of the host, unless it is the request's own memory. A driver does so without the
/// interpreter's lock, as it may wait.
fn copy_from_host(
    py: Python<'_>,
    lease: &Lease,
    side: Side,
    port: &PortSpec,
    data: &[u8],
) -> PyResult<()> {
    let memory = lease.memory(End::Inputs, side);
    if data.as_ptr() as u64 == memory.address() + port.offset as u64 {
        return Ok(());
    }
    let written = match memory.location() {
        MemoryLocation::Host => memory.write(port.offset, data),
        _ => py.detach(|| memory.write(port.offset, data)),
    };
    written.map_err(raised)
}

/// Copies an input inside of the device, unless it is the request's own memory.
///
/// # Safety
///
/// There are as many bytes as the port has, in memory of the device.
unsafe fn copy_in(
    py: Python<'_>,
    turn: &mut Turn<'_>,
    port: &PortSpec,
    address: u64,
) -> PyResult<()> {
    let memory = turn.network().memory(End::Inputs, Side::Device);
    let own = memory.address() + port.offset as u64;
    if address == own {
        return Ok(());
    }
    // SAFETY: as many bytes as the port has are memory of the device at `address`: `copy_in`
    // demands it. The input's owner keeps them during the call.
    let copied = py.detach(|| unsafe { turn.copy_in(port.offset, address, port.bytes) });
    copied.map_err(raised)
}

/// Waits until `is_over`, as long as no signal's handler raises.
pub(crate) fn wait_until(
    py: Python<'_>,
    is_over: impl Fn() -> reef_any::Result<bool> + Sync,
) -> PyResult<()> {
    if is_over().map_err(raised)? {
        return Ok(());
    }
    loop {
        let checked = py.detach(|| {
            let begin = Instant::now();
            loop {
                let waited = begin.elapsed();
                match is_over() {
                    Ok(false) if waited >= TURN => return Ok(false),
                    Ok(false) if waited >= SPIN => thread::sleep(POLL_INTERVAL),
                    Ok(false) => std::hint::spin_loop(),
                    other => return other,
                }
            }
        });
        if checked.map_err(raised)? {
            return Ok(());
        }
        py.check_signals()?;
    }
}

/// Inputs in the network's order, by Python.
fn in_order<'py>(
    lease: &Lease,
    values: &Bound<'py, PyTuple>,
    named: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let py = values.py();
    let names = PyTuple::new(py, lease.pool.inputs.iter().map(|port| &port.name))?;
    let module = py.import(intern!(py, "reef._network"))?;
    let empty = PyDict::new(py);
    let args = (&lease.pool.name, names, values, named.unwrap_or(&empty));
    Ok(module.call_method1(intern!(py, "in_order"), args)?.cast_into()?)
}

fn input<'py>(lease: &Lease, port: &PortSpec, value: &Bound<'py, PyAny>) -> PyResult<Input<'py>> {
    let py = value.py();
    if let Some(table) = port.table(py)? {
        let args = (&port.name, PyTuple::new(py, &port.dims)?, value);
        let places = table.call_method1(intern!(py, "places"), args)?;
        return Ok(Input::Numpy(places.cast_into()?));
    }
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        // Of subclasses Python knows what they mean, as a mask.
        let is_usual = value.is_exact_instance_of::<PyUntypedArray>()
            && array.is_c_contiguous()
            && array.shape() == port.dims
            && array.dtype().is_equiv_to(port.descr(py)?);
        return if is_usual { Ok(Input::Numpy(array.clone())) } else { checked(py, port, value) };
    }
    if let Ok(array) = value.cast::<Array>()
        && let Some((address, place)) =
            array.get().fits(port.element, &port.dims, lease.pool.location())?
    {
        return Ok(Input::Own { address, place, _keep: array.clone() });
    }
    let device = match device_of(value) {
        Ok(device) => device,
        // It has none, or can't say where it is: Python has the words.
        Err(why) if why.is_instance_of::<PyException>(py) => return checked(py, port, value),
        Err(interrupt) => return Err(interrupt),
    };
    if device.is_host() {
        return match shared(value, None) {
            Ok(shared) if !shared.device().is_host() => Err(refused(port, ELSEWHERE)),
            Ok(shared) if shared.is_contiguous() => Ok(Input::Shared(fits(port, shared)?)),
            _ => checked(py, port, value), // it is turned, or of a type that its DLPack lacks
        };
    }
    let own = Device::of(lease.pool.location());
    if own != Some(device) {
        let own = own.filter(|own| !own.is_host());
        let own = own.map(|own| format!("{} or ", own.name())).unwrap_or_default();
        let why = format!("must be on {own}the host, got an array on {}", device.name());
        return Err(refused(port, &why));
    }
    let stream = lease.network.stream().map_err(raised)?;
    let shared = shared(value, Some(stream)).map_err(|why| refused(port, &why))?;
    if shared.device() != device {
        return Err(refused(port, ELSEWHERE));
    }
    if !shared.is_contiguous() {
        let why = "must be contiguous on a GPU, got other strides: call contiguous()";
        return Err(refused(port, why));
    }
    Ok(Input::Shared(fits(port, shared)?))
}

/// Location of an array of another library.
fn device_of(value: &Bound<'_, PyAny>) -> PyResult<Device> {
    let place = value.call_method0(intern!(value.py(), "__dlpack_device__"))?;
    let (kind, ordinal): (i32, i32) = place.extract()?;
    Ok(Device::new(kind, ordinal))
}

#[cold]
fn refused(port: &PortSpec, why: &str) -> PyErr {
    InvalidError::new_err(format!("input {} {why}", port.name))
}

/// Refuses what is of another type or shape than the port.
fn fits(port: &PortSpec, shared: Borrowed) -> PyResult<Borrowed> {
    if let Some(other) = shared.differs(port.element, &port.dims) {
        let (dtype, dims) = (port.dtype(), tuple(&port.dims));
        return Err(refused(port, &format!("must be {dtype} {dims}, got {other}")));
    }
    if shared.address() == 0 && port.bytes > 0 {
        return Err(refused(port, "must have memory, got a null pointer"));
    }
    Ok(shared)
}

/// Memory of an array of another library, whose work the stream waits for.
fn shared(value: &Bound<'_, PyAny>, stream: Option<u64>) -> Result<Borrowed, String> {
    let capsule = capsule_of(value, stream).map_err(|error| error.to_string())?;
    Borrowed::take(&capsule)
}

/// Calls `__dlpack__`. Libraries of before version 1 don't know `max_version`; the newest such type
/// is remembered, because finding out takes microseconds.
fn capsule_of<'py>(value: &Bound<'py, PyAny>, stream: Option<u64>) -> PyResult<Bound<'py, PyAny>> {
    static OLD: Mutex<usize> = Mutex::new(0);
    let py = value.py();
    let name = intern!(py, "__dlpack__");
    let args = PyDict::new(py);
    if let Some(stream) = stream {
        args.set_item(intern!(py, "stream"), stream)?;
    }
    // A type's address: that of a type which is gone, and came back, costs one more try.
    let kind = value.get_type().as_ptr() as usize;
    if *OLD.lock() == kind {
        match value.call_method(name, (), Some(&args)) {
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {} // as below
            other => return other,
        }
    }
    args.set_item(intern!(py, "max_version"), (1, 0))?;
    match value.call_method(name, (), Some(&args)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            args.del_item(intern!(py, "max_version"))?;
            let capsule = value.call_method(name, (), Some(&args))?;
            *OLD.lock() = kind;
            Ok(capsule)
        }
        other => other,
    }
}

/// An array as Python makes it, which also has the words for what doesn't fit.
fn checked<'py>(
    py: Python<'py>,
    port: &PortSpec,
    value: &Bound<'py, PyAny>,
) -> PyResult<Input<'py>> {
    let module = py.import(intern!(py, "reef._network"))?;
    let args = (&port.name, PyTuple::new(py, &port.dims)?, port.dtype(), value);
    let array: Bound<'py, PyUntypedArray> =
        module.call_method1(intern!(py, "checked"), args)?.cast_into()?;
    Ok(Input::Numpy(array))
}
