//! Sums of products of singles, by vectors.
//!
//! In: an operation that was checked, and its inputs as slices. Out: sums, in a unit's scratch
//! memory. Matrices go by the tuned product of a tile: panels of those that never change are packed
//! once (`layers`), of others by each block (`matrices`). All other sums go line by line (`sums`).

#[cfg(target_arch = "x86_64")]
mod gathered;
pub(crate) mod layers;
#[cfg(target_arch = "x86_64")]
mod lines;
pub(super) mod matrices;
pub(super) mod pack;
mod panel;
mod plain;
pub(super) mod sums;
pub(super) mod tiles;
mod window;
