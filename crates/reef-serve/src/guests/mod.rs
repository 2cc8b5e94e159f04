//! Unmodified programs on this machine's devices: registration, limits and violations.
//!
//! - **In**: programs that run under `reef exec`, over `guests.sock`.
//! - **Out**: a page for each, its figures and its job's limits in the metrics. Real-time work of
//!   either side, guests or the daemon's own requests, stops the other's best-effort work on the
//!   same device. Containers that register as Alnair's do get the files that Alnair's tools read.
//! - **Invariant**: a program is real-time only if the configuration grants it; without
//!   `guests.listen` there is no socket.

mod collector;
mod containers;
mod coordination;
mod jobs;
mod limit_audit;
mod mps;
mod policy;
mod registrar;
pub(crate) mod service;
mod violations;
