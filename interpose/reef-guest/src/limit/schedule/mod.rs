//! Schedule of a device's time: the times at which processes may begin work.
//!
//! *In*: a process that wants to begin, and polls of its work. *Out*: the time that it has to wait.
//! *Invariant*: a job has its part of the time, as its work is measured; of processes that want the
//! device at once, one has it at a time; a process that has it and is idle, stopped, dead or late
//! delays others only for a bounded time.

mod account;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;

pub use account::Policy;
