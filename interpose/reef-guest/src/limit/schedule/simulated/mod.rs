//! Simulation of programs on a device, for parts of its time.
//!
//! *In*: plans of programs. *Out*: the device time of each. *Invariant*: only the device, threads
//! and sleeps are simulated; usage, accounts file and turns are the real code, on the clock of the
//! simulation.

mod device;
mod program;
mod random;

pub(super) use device::{Fleet, parts};
pub(super) use program::{MICROSECOND, MILLISECOND, Plan};
pub(super) use random::Random;
