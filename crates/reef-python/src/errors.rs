//! Exceptions.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use reef_any::{Fault, Reason};

create_exception!(reef, Error, PyException, "Base class of REEF's exceptions.");
create_exception!(reef, InvalidError, Error, "An argument is wrong.");
create_exception!(reef, NotFoundError, Error, "Nothing has this name.");
create_exception!(reef, UnsupportedError, Error, "The device or this version can't do it.");
create_exception!(reef, DeviceLostError, Error, "The device stopped answering.");
create_exception!(reef, OutOfMemoryError, Error, "The device or the host is out of memory.");
create_exception!(reef, BusyError, Error, "Not now; it may succeed later.");
create_exception!(reef, CancelledError, Error, "The request was cancelled.");
create_exception!(reef, FileError, Error, "A file can't be read, or isn't what it should be.");
create_exception!(reef, DriverError, Error, "The vendor's driver refused a call.");
create_exception!(reef, HostError, Error, "The operating system refused something.");

/// Returns the exception of a daemon's error: one of `python/reef/_errors.py`, by its kind.
pub(crate) fn daemon_error(error: &reef_serve::Error) -> PyErr {
    Python::attach(|py| {
        let made = py
            .import("reef._errors")
            .and_then(|module| module.call_method1("of_kind", (error.kind(), error.to_string())));
        made.map_or_else(|broken| broken, PyErr::from_value)
    })
}

/// Returns the exception of a fault.
pub(crate) fn raised(fault: Fault) -> PyErr {
    let text = fault.text;
    match fault.reason {
        Reason::Invalid => InvalidError::new_err(text),
        Reason::NotFound => NotFoundError::new_err(text),
        Reason::Unsupported => UnsupportedError::new_err(text),
        Reason::Lost => DeviceLostError::new_err(text),
        Reason::NoMemory => OutOfMemoryError::new_err(text),
        Reason::Busy => BusyError::new_err(text),
        Reason::Cancelled => CancelledError::new_err(text),
        Reason::File => FileError::new_err(text),
        Reason::Driver => DriverError::new_err(text),
        Reason::System => HostError::new_err(text),
        _ => Error::new_err(text),
    }
}
