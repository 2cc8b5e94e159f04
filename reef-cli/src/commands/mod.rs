//! Commands of one file each: arguments come in, a report on stdout goes out.
//!
//! None of them knows another.

pub(crate) mod client;
pub(crate) mod completions;
pub(crate) mod devices;
pub(crate) mod profile;
pub(crate) mod serve;
pub(crate) mod trace;
