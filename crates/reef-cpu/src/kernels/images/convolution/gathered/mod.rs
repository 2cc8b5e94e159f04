//! Convolutions as products of gathered windows and packed panels: what any convolution may be.
//!
//! In: a convolution, and a formula behind its sums if there is one. Out: its kernel ([`block`]).
//! Windows are gathered as runs of floats (`runs`, [`windows`]) unless pixels can be read where
//! they lie, and multiplied (`products`).
//!
//! Invariant: terms of a sum come in the order in which the input lies in memory, which is
//! the order of the packed weights; and a block keeps the contract of all others.

pub(in crate::kernels) mod block;
mod products;
mod runs;
pub(super) mod windows;
