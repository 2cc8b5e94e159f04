//! Parts of a device's time: who may begin work when.
//!
//! *In*: a process that wants to begin, and what looks at its work show. *Out*: how long it has to
//! wait. *Invariant*: a job has its part of the time, as its work is measured; of processes that
//! want the device at once one has it at a time; and whoever has it and is idle, stopped, dead or
//! late keeps nobody else from it for long.

mod account;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;

pub use account::Policy;
