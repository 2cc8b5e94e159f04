//! `reef bench local`: what the way through a daemon's shared memory adds to a request.
//!
//! - **In**: a network, by its name or as an ONNX file; how often it is asked for.
//! - **Out**: a row for each way to ask for it: in this process, and by a daemon of this bench's
//!   own with its defaults, with both sides polling, and with inputs that lie where the device
//!   reads them.
//! - **Invariant**: all ways ask for the same network on the same device, in turns, from the same
//!   thread, at the same period. The daemons end with the bench.

pub(crate) mod args;
mod daemon;
mod library;
mod measure;
mod report;
pub(crate) mod run;
mod way;
