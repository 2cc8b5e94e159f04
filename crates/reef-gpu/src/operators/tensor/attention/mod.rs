//! Attention as one launch: kernels/attention.h.
//!
//! In: attention that is checked. Out: a launch whose blocks are tiles of the rows that see the
//! same keys. Invariant: what has no such launch is refused before, so that a network is made of
//! its parts instead.

pub(super) mod launch;
mod params;
