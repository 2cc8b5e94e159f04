//! The kinds of operations, each with its loops.
//!
//! In: an operation that was checked, its inputs and a range of outputs ([`job::Job`]). Out: these
//! outputs, or nothing if it was told to stop. Invariant: loops check whether to stop after some
//! ten thousand steps at most.

pub(crate) mod attention;
pub(crate) mod contract;
pub(crate) mod depthwise;
pub(crate) mod eight;
pub(crate) mod finished;
pub(crate) mod fold;
pub(crate) mod formula;
pub(crate) mod indexed;
pub(crate) mod job;
pub(crate) mod map;
pub(crate) mod movement;
pub(crate) mod row_map;
pub(crate) mod rows;
pub(crate) mod suppress;
