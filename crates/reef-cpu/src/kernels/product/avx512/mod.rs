//! The product of a [`Tile`](super::tile::Tile) with AVX-512.
//!
//! In: a tile, and what becomes of its sums if they are not kept for more terms ([`ends`]). Out:
//! what it writes ([`tiles`]). Tiles of all rows and two vectors, which is where the time goes,
//! have an inner loop in assembly (`pairs`); the other sizes are left to the compiler.
//! Invariant: terms of a sum come in their order.

pub(in crate::kernels) mod ends;
mod pairs;
pub(in crate::kernels) mod tiles;
