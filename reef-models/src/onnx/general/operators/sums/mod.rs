//! Operators that make one element of many: reductions, products, windows, normalisations, losses.

pub(super) mod convolutions;
pub(super) mod losses;
pub(super) mod normal;
pub(super) mod pools;
pub(super) mod products;
pub(super) mod reductions;
pub(super) mod window;
