//! What is ours in the program's process besides its own calls: calls of the driver, threads, and
//! the report.
//!
//! *In*: what other folders want of the driver and the system. *Out*: results, and text at the
//! process's end. *Invariant*: calls are those of the real driver, and none of them breaks a
//! capture of the program's if it is made in `relaxed`; threads block all signals.

pub(crate) mod calls;
pub(crate) mod explain;
pub(crate) mod quietly;
pub(crate) mod thread;
