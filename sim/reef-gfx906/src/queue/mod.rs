//! Hardware queues: what the host writes, and how the device takes it up.
//!
//! - **In**: AQL and SDMA packets in rings in mapped memory.
//! - **Out**: launches, finished copies, signals and events.
//! - **Invariant**: packets of a queue are processed in their order, and a packet that is wrong
//!   fails its queue.

pub(crate) mod aql;
pub(crate) mod ring;
pub(crate) mod sdma;
mod signal;
#[cfg(test)]
mod tests;
