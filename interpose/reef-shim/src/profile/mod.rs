//! Profile of the program's calls (`REEF_PROFILE`).
//!
//! *In*: calls of hooks, which `timed` wraps. *Out*: Alnair's files, a table on stderr, a file for
//! Perfetto, written by a thread of ours, at the program's end, and at a SIGTERM that the program
//! doesn't handle itself. *Invariant*: a launch takes no lock here and allocates nothing; without a
//! profile a call costs one read of a word; a profile that can't be written is one line on stderr,
//! and the program continues.

mod active;
pub(crate) mod begin;
mod finish;
pub(crate) mod memory;
pub(crate) mod names;
pub(crate) mod timed;
mod writer;
