//! `reef bench launch`: what it costs to hand over commands that do nothing.
//!
//! The command is a kernel of one block that writes its cell. Bursts of it, and single ones, go
//! straight to a queue of the device, and through virtual queues with windows of several lengths;
//! each with a preemptor and without, or at level HostQueue, where kernels have no guard.

pub(crate) mod args;
pub(crate) mod measure;
pub(crate) mod report;
pub(crate) mod run;
