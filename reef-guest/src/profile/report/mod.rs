//! Totals and calls as text: Alnair's files, a table, a trace.
//!
//! *In*: totals, and calls in their order. *Out*: text. *Invariant*: the same numbers are the same
//! bytes; nothing is written anywhere.

pub mod alnair;
pub mod table;
pub mod trace;
