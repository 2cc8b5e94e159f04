//! Stopping of queues.
//!
//! In: evict, reactivate. Out: a word of the device that blocks check, or gates between launches
//! that close and open. Invariant: the word only grows, so a launch that is void stays void; a gate
//! is closed only while its preemptor is evicted.

pub(crate) mod gate;
pub(crate) mod gate_set;
pub(crate) mod preemptor;
