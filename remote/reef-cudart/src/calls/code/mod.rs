//! Code of the program: what it registers, what it launches, what it asks about kernels.
//!
//! *In*: addresses of the host's functions and variables. *Out*: launches of the driver's kernels.
//! *Invariant*: registering calls no driver.

mod functions;
mod launches;
mod libraries;
mod registration;
mod symbols;
