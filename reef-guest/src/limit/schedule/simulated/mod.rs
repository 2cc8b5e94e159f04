//! Programs on a device, simulated as far as parts of its time go.
//!
//! *In*: what programs do. *Out*: for how long the device worked for each. *Invariant*: what is
//! simulated is the device, threads and sleeps; meters, books and turns are those that processes
//! have, on a clock of the simulation's.

mod device;
mod program;

pub(super) use device::{Fleet, parts};
pub(super) use program::{MICROSECOND, MILLISECOND, Plan};
