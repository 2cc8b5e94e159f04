//! Schedules: which storages there are, and which steps fill them in which order.
//!
//! In: storages and steps, from a file or a builder. Out: a checked [`ScheduleGraph`], and what
//! follows from the order alone: a place for each storage ([`arena`]), and where running a step
//! again would read what a later one has overwritten ([`hazards`]).
//!
//! Invariant: each step writes one storage, and nothing is read before it is written
//! ([`validate`]).

pub mod arena;
mod at_steps;
pub(crate) mod hazard;
pub(crate) mod order;
pub(crate) mod problem;
pub(crate) mod schedule;
pub(crate) mod validate;

pub use hazard::hazards;
pub use problem::Problem;
pub use schedule::{ElementType, KernelCall, ScheduleGraph, Step, Storage, Work};
