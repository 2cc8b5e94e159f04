//! The innermost product: a few rows times one panel, with the sums in registers.
//!
//! In: a [`Tile`](tile::Tile) of operands. Out: its sums in memory ([`multiply`]), or what becomes
//! of them ([`avx512`]). Invariant: terms of a sum come in their order, whatever a tile's
//! size, so a sum's bits don't hang on how a layer is cut into tiles.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
pub(super) mod multiply;
pub(super) mod portable;
pub(super) mod tile;
