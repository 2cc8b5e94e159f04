//! Starts of processes: from a program, or from the folder that an earlier process was written to.
//!
//! - **In**: a command, and the ends of a socket pair and of a pipe.
//! - **Out**: a child of the thread that starts it, which ends with that thread; its output in the
//!   log.
//! - **Invariant**: the daemon keeps none of the child's ends.

pub(super) mod output;
pub(super) mod spawn;
pub(super) mod warm;
