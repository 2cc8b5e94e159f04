//! The part of real hardware: queues of launches, and units that run their blocks.
//!
//! In: commands from queues' submitting ends, and stop words of preemptors. Out: blocks that run
//! ([`units`]), and positions in [`HwQueue::done`](hw_queue::HwQueue::done). Invariant: of
//! each queue only the first command gives blocks; each block has its operands borrowed while it
//! runs; what is over is dropped without the lock.

pub(crate) mod cpu;
pub(crate) mod hw_queue;
mod queues;
mod run;
pub(crate) mod task;
mod trace;
pub(crate) mod units;
pub(crate) mod work;
