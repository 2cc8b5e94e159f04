//! The way of a launch to the device, and back.
//!
//! In: commands with their positions, and checkpoints of what was stopped. Out: positions that are
//! completed, and checkpoints of what remains. Invariant: each block takes effect exactly once:
//! what is in flight has a place where its blocks note that they stopped, and only what they noted
//! is launched again. What it touches is kept until it has ended.

pub(crate) mod blit;
pub(crate) mod checkpoint;
pub(crate) mod companions;
pub(crate) mod gated;
pub(crate) mod graph;
pub(crate) mod guarded;
pub(crate) mod noted;
pub(crate) mod queue;
pub(crate) mod stop_lists;
pub(crate) mod timeline;
