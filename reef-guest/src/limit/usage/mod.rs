//! What the books have of a device's time, and how it is measured.
//!
//! *In*: the clock; what looks at a process's work show. *Out*: the words of which parts of the
//! time are made. *Invariant*: a job's [`bucket`] is filled by the clock at its part and emptied by
//! what its work took; at most one process has the [`turn`]; what a process did when ([`presence`])
//! is written by that process alone.

pub(super) mod bucket;
pub(super) mod measure;
pub(super) mod presence;
pub(super) mod turn;
