//! A device's time, in parts.
//!
//! *In*: when a process wants to begin work, and what looks at its work show. *Out*: how long it has to wait.
//! *Invariant*: a job has its part of the time ([`bucket`]), as what its work takes is measured ([`usage`]); of processes
//! that want the device at once one has it at a time ([`turn`]), and whoever has it and is idle, stopped, dead or
//! late keeps nobody else from it for long ([`part`]).

use super::atomic;

pub(super) mod bucket;
mod part;
pub(super) mod presence;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
pub(super) mod turn;
mod usage;

pub use part::Policy;
pub use usage::{Seen, Usage};
