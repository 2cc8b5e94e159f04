//! `reef model calibrate`: scales of a network's numbers of 8 bits, and the error that these make.
//!
//! In: a network, and samples of its inputs. Out: a file of scales, and how far the outputs are
//! from those of floats.
//!
//! Invariant: floats are those of plain loops on the host, whatever the device is.

pub(crate) mod args;
pub(super) mod deviation;
mod measure;
pub(crate) mod run;
mod samples;
