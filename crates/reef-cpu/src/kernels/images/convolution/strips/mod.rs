//! Convolutions of the planes of an image, such as a network's first one, without gathering
//! windows.
//!
//! In: a convolution in one group over planes, with the constants of any other convolution. Out:
//! its kernel. A *strip* has what one line of outputs sees: for each plane and row of the window a
//! line of the image, between zeros. Windows side by side lie as many floats apart in it as the
//! window moves, so that the rows of a tile are read where they lie:
//!
//! ```text
//! strip   0 0 0 │ a b c d e f g h …      one line for each plane and row of the window
//! row 0   └──── window ────┘
//! row 1       └──── window ────┘         STEP floats behind row 0
//! ```
//!
//! Invariant: sums have the bits of those over gathered windows, as their terms come in the
//! same order; and a block keeps the contract of all others.

pub(in crate::kernels::images) mod block;
mod product;
mod strip;
#[cfg(test)]
mod tests;
