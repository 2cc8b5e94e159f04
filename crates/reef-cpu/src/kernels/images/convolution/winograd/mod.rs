//! Convolutions of three by three with 16 products for four outputs instead of 36.
//!
//! After Winograd, *Arithmetic Complexity of Computations* (1980), as Lavin and Gray apply it to
//! networks ([arXiv:1509.09308](https://arxiv.org/abs/1509.09308)): F(2×2, 3×3). An output tile of
//! 2 × 2 pixels sees 4 × 4 of the input. Both are turned by additions alone,
//!
//! ```text
//! turned inputs   V = Bᵀ d B        one of 16 numbers per tile and channel
//! turned filters  U = G g Gᵀ        when the weights are packed
//! turned sums     M = Σ V · U       16 products of matrices: tiles × channels × outputs
//! outputs         Y = Aᵀ M A
//! ```
//!
//! In: the operands of a [`Conv2d`](reef_op::Conv2d), with filters as [`filters`] turned them. Out:
//! its output. Invariant: sums of which one isn't finite are made anew as the definition says, so
//! that a value that is not a number spreads no further; and a block keeps the contract of all
//! others.

pub(in crate::kernels::images) mod block;
pub(in crate::kernels::images) mod filters;
mod outputs;
mod turn;
