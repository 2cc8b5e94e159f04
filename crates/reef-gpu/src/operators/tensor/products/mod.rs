//! Sums of products: the tensor operations that take most of a network's time.
//!
//! In: a contraction whose operands are checked. Out: one launch. `contract` chooses its kernel:
//! tiles on tensor cores (`tiled`), tiles of single products, blocks for few rows (`few`), or a
//! thread for each output. A formula behind it is made of steps (`epilogue`). `matrices` finds the
//! products of matrices in it, `sides` how their inputs lie, `inputs` how they are stored; `packed`
//! rounds columns that never change; `group` makes one launch of several. Invariants: scratch
//! memory and launch come from the same cut; a tile's count of parts is zero between launches.

pub(super) mod contract;
mod epilogue;
mod few;
mod gelu;
pub(super) mod group;
mod inputs;
mod matrices;
pub(super) mod packed;
mod params;
mod sides;
mod tiled;
