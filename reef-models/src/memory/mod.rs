//! Memory that readers of files take, charged before it is made.
//!
//! In: a [`Budget`], which is a number of bytes. Out: lists whose memory was charged to it
//! ([`List`](list::List)), or the error that says what was wanted and what was left
//! ([`Exhausted`]).
//!
//! Invariant: apart from some kilobytes, a reader holds at a time no more than it has charged. So
//! an untrusted file takes no more memory than its reader was given, whatever the file says.
//!
//! Memory that a reader hands over (a network, its weights) stays charged until the budget is
//! dropped.

pub(crate) mod budget;
pub(crate) mod ledger;
pub(crate) mod list;

pub use budget::{Budget, Charge, Exhausted};
