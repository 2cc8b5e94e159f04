//! Best-effort work next to busy real-time programs: how much of it passes, and when.
//!
//! *In*: wishes of both sides, what the daemon allows, and the lengths of a real-time program's
//! iterations. *Out*: for each best-effort guest the windows in which its gates are open while
//! real-time work lasts. *Invariant*: nothing here reads a clock or starts a thread; a guest's
//! windows are at most what the daemon allows and at least its floor.

pub(crate) mod allowance;
mod balance;
pub(crate) mod controller;
pub(crate) mod memory;
pub(crate) mod pairs;
pub(crate) mod share;
pub(crate) mod trial;
pub(crate) mod windows;

pub use allowance::{Allowance, Caps};
pub use controller::{Controller, MAX_PROBE};
pub use share::{Percent, ShareRequest, Slo};
pub use windows::{Step, Windows};

#[cfg(test)]
mod simulated_decoder;
#[cfg(test)]
mod simulated_hosts;
#[cfg(test)]
mod simulated_programs;
#[cfg(test)]
mod simulated_slices;
