//! `reef bench saturate`: what best-effort work keeps beside real-time work that never pauses.
//!
//! Real-time requests follow each other without a gap, so whatever best-effort work gets done runs
//! beside them: kernel by kernel, or narrow, so many blocks at a time.

pub(crate) mod args;
pub(crate) mod report;
pub(crate) mod run;
