//! The device: compute units, hardware queues, and the threads that are its clockwork.
//!
//! - **In**: queues with packets, as the host makes them.
//! - **Out**: what kernels and copies write, signals, a trace of workgroups.
//! - **Invariant**: a workgroup is either on a unit and waits for its turn, or a thread runs it; it
//!   ends once, with the outcome in the trace.

mod group;
mod hardware_queue;
mod host_queues;
pub(crate) mod machine;
mod residents;
mod state;
#[cfg(test)]
mod tests;
mod trace;
mod worker;
