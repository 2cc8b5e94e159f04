//! Interface between reef-gpu and a vendor's backend.
//!
//! In: a vendor's driver, as an implementation of [`calls::Vendor`]. Out: facts, options, images,
//! and what both vendors need: free lists, compiled code on disk, the calls of a run-time compiler.
//! Invariant: nothing here knows of queues, networks or preemption.

pub mod cache;
pub(crate) mod calls;
pub(crate) mod compiler;
pub(crate) mod compiler_calls;
pub(crate) mod errors;
pub(crate) mod facts;
#[cfg(test)]
pub(crate) mod fake;
pub(crate) mod free_list;
pub(crate) mod image;
pub(crate) mod options;
pub(crate) mod streams;
pub(crate) mod table;
