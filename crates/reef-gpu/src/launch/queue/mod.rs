//! A stream, which a preemptor can stop.
//!
//! In: commands with their positions, in order, and checkpoints of what was stopped. Out: the
//! position that has been reached, and after an eviction the first command that is not complete,
//! with what remains of it.
//!
//! A queue that can be stopped launches the guarded build of kernels. While it is evicted, the
//! stream's timeline is worth nothing, because void launches end as well; then a report of the
//! device tells which blocks have stopped (`reap`). What a launch touches is kept until it has
//! ended (`retained`).
//!
//! Its kernels may be padded: blocks of a best-effort kernel run next to them, in streams that the
//! queue has for that (`padded`).

mod api;
pub(crate) mod hardware_queue;
mod in_flight;
mod padded;
mod reap;
pub(crate) mod retained;
mod segments;
#[cfg(test)]
mod tests;
