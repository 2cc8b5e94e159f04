//! Attention in networks that have it as separate operations: products of queries and keys, changes
//! of these scores, a softmax, and products with values. A device that joins them never has the
//! scores in memory.
//!
//! In: steps in launch order, and which joined operations a device has. Out: steps that give the
//! same but for rounding ([`joined`](find::joined)); moves of queries, keys, values and results
//! become views where nothing else reads them.
//!
//! Invariant: what others read, and outputs, are still written.

pub(crate) mod find;
mod operands;
mod places;
mod rows;
mod scores;
mod softmax;
mod steps;
#[cfg(test)]
mod tests;
