//! Products of matrices cut into tiles, and their sums into slabs and parts.
//!
//! In: the sizes of a product and what the device has. Out: a tile and a number of parts (`tile`);
//! what a convolution is as a product (`slabs`); one tile for several of them (`common`).
//! Invariant: a plan's blocks fit the device.

pub(super) mod common;
pub(super) mod slabs;
pub(super) mod tile;
