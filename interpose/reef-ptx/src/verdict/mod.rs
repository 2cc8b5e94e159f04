//! Verdicts on kernels: may they be stopped, sliced, abandoned, run again?
//!
//! In goes a kernel of a text; out come answers with reasons. A *yes* is proved by the text, given
//! that it follows PTX's memory model. A *no* may be an alarm too many.

pub(crate) mod abandon;
pub(crate) mod answer;
pub(crate) mod facts;
pub(crate) mod in_flight;
pub(crate) mod reason;
pub(crate) mod refuse;
pub(crate) mod rerun;
pub(crate) mod rounding;

pub use answer::Verdict;
pub use reason::{Cause, KernelMemory, Reason};
pub use rerun::{Idempotent, Rerun};
