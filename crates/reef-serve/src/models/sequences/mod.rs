//! State of sequences: tensors that stay on the device from one request of a sequence to the next,
//! or the process of a program that keeps its state itself.
//!
//! ```text
//! request ── id ──► Sequences ──► Sequence ── state ──► inputs of the network
//!                                    ▲                        │
//!                                    └──── when it ends ── outputs of the network
//! ```
//!
//! - **In**: pairs of inputs and outputs, ids of sequences.
//! - **Out**: device memory for the state inputs and outputs of each request; the process for it.
//! - **Invariant**: the requests of a sequence run one at a time, in the order of their arrival. A
//!   request that fails leaves the state as it was before, apart from a program's. A principal sees
//!   its own sequences only.

pub(crate) mod sequence;
pub(crate) mod table;
