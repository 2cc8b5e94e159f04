//! `reef demo`: one real-time client and four best-effort clients on one device.
//!
//! First each class alone, then both under each of REEF's baselines and under REEF, all in one run,
//! so that the numbers can be compared.

pub(crate) mod args;
pub(crate) mod measure;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod spans;
