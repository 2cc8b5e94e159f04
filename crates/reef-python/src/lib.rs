//! REEF for Python: the private module `reef._reef`.
//!
//! *In*: calls of any Python thread. *Out*: objects of [`reef_any`] and clients of a daemon, and
//! their faults as exceptions.
//! *Invariant*: no call holds the interpreter's lock while it waits; a process that was forked gets
//! an exception instead of its parent's device. Shapes, types and names are checked in Python, in
//! `python/reef/`; bytes that do not fit are refused here.

mod client;
mod cluster;
mod daemon;
mod device;
mod errors;
mod memory;
mod model_args;
mod network;
mod owned;
mod request;
mod time;

use pyo3::prelude::*;

/// Private module of the package `reef`.
#[pymodule(gil_used = false)]
mod _reef {
    #[pymodule_export]
    use super::client::Client;
    #[pymodule_export]
    use super::cluster::{Cluster, ClusterNetwork, Placed, open_cluster};
    #[pymodule_export]
    use super::daemon::session::{DaemonRequest, Session, daemon_socket};
    #[pymodule_export]
    use super::device::{Device, devices, open, schedulers};
    #[pymodule_export]
    use super::errors::{
        BusyError, CancelledError, DeviceLostError, DriverError, Error, FileError, HostError,
        InvalidError, NotFoundError, OutOfMemoryError, UnsupportedError,
    };
    #[pymodule_export]
    use super::memory::array::Array;
    #[pymodule_export]
    use super::network::{Network, Slot};
    #[pymodule_export]
    use super::request::Request;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn add_version(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
