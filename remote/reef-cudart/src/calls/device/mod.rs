//! Devices, errors, and the driver's functions by name.
//!
//! *In*: numbers of devices and codes. *Out*: facts. *Invariant*: a question about facts makes no
//! context.

mod devices;
mod entry;
mod errors;
mod peers;
mod properties;
mod settings;
