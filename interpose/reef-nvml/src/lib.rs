//! Memory and utilization of processes on a device, from NVIDIA's management library (NVML).
//!
//! *In*: devices by their UUIDs. *Out*: how much device memory each process has, its context and
//! code included, and for which part of the time its kernels ran ([`Monitor`], [`Nvml`]).
//! *Invariant*: the library is opened when it is asked for, and its absence is an error with one
//! line; nothing is changed on a device.
//!
//! Structs and codes are those of `nvml.h` of CUDA 11.8 to 13.4. `sim/fake-libnvml/` is one of the
//! name for tests, and `shim/` one for programs that are to see their limit in the place of their
//! device's memory.

mod error;
mod library;
mod monitor;

pub use error::Error;
pub use library::{LIBRARY, Nvml, VARIABLE};
pub use monitor::{Busy, Figures, Memory, Monitor, Process, Uuid};
