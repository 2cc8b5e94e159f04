//! `reef bench saturate`: throughput of best-effort work next to real-time work that never pauses.
//!
//! Real-time requests follow each other without a gap, so all best-effort work runs next to them:
//! kernel by kernel, or narrow, with a limited number of blocks at a time.

pub(crate) mod args;
pub(crate) mod report;
pub(crate) mod run;
