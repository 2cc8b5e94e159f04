//! Totals and calls as text: Alnair's files, a table, a trace.
//!
//! *In*: totals, and calls in their order. *Out*: text. *Invariant*: equal numbers give equal
//! bytes; no file is written.

pub mod alnair;
pub mod table;
pub mod trace;
