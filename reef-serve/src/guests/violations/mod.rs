//! What cooperative enforcement can't prevent and a daemon can see: looked for each second, logged
//! once, and counted.
//!
//! *In*: guests with their pages, jobs with their limits, and who is on a device, as NVML says.
//! *Out*: violations for metrics, and processes that may not be real-time any more. *Invariant*:
//! what may be so for a moment isn't one until it has lasted; a best-effort guest is never let go.

pub(super) mod find;
pub(super) mod revoked;
pub(super) mod scan;
#[cfg(test)]
mod tests;
