//! Operators that make one element of many: reductions, products, windows, normalisations, losses;
//! and what puts elements back into windows.

pub(super) mod convolutions;
pub(super) mod grams;
pub(super) mod losses;
pub(super) mod normal;
pub(super) mod pools;
pub(super) mod products;
pub(super) mod reductions;
pub(super) mod unpooled;
pub(super) mod window;
