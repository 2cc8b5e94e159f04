//! Suspension of best-effort guests: out of the GPU's memory, and back.
//!
//! *In*: a process number or a job, by an operator (`suspensions`); a real-time program that
//! needs memory (`memory_policy`); an idle model (`residency`). *Out*: records, figures for
//! `/metrics`. *Invariant*: a guest that is suspended, or about to be, has open gates, whatever
//! holds its device. Otherwise its work would not end and the driver would refuse. A real-time
//! guest is not suspended, apart from an idle model. One operation at a time, or a departure with
//! the return that takes its room, in a process of its own, so that the end of the daemon leaves no
//! process half suspended. Each returns what it has suspended itself, and nothing that an operator
//! has.

pub(crate) mod gpu_memory;
pub(crate) mod memory_policy;
mod plan;
mod reservations;
mod returns;
pub(crate) mod suspensions;
mod watch;
