//! Device time: the words of the accounts file that describe it, and its measurement.
//!
//! *In*: the clock, and polls of a process's work. *Out*: the words by which `schedule` divides the
//! time. *Invariant*: a job's [`bucket`] is filled by the clock at its part, and emptied by the
//! time that its work took; at most one process has the [`turn`]; a process's [`presence`] is
//! written by that process alone; a launch waits without end for the payment of a debt alone
//! ([`timeout`]).

pub(super) mod bucket;
pub(super) mod measure;
pub(super) mod presence;
pub(super) mod timeout;
pub(super) mod turn;
