//! `reef demo`: one real-time client and four best-effort clients on one device.
//!
//! First a request next to long blocks, then networks: each class alone, then both under each of
//! REEF's baselines and under REEF, all in one run, so that the numbers can be compared.

pub(crate) mod args;
pub(crate) mod blocks;
pub(crate) mod measure;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod spans;
