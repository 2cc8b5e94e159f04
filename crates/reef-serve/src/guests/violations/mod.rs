//! Violations that cooperative enforcement cannot prevent and a daemon can see: scanned each
//! second, logged once, and counted.
//!
//! *In*: guests with their pages, jobs with their limits, and NVML's processes of a device. *Out*:
//! violations for metrics, and processes that may not be real-time any more. *Invariant*: a state
//! that may be transient counts only after it has lasted; a best-effort guest is never released.

pub(super) mod find;
pub(super) mod revoked;
pub(super) mod scan;
#[cfg(test)]
mod tests;
