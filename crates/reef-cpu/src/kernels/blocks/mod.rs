//! Parts that blocks of all kernels have in common.
//!
//! In: memory of operands ([`operand_layout`], [`operand`]) and sizes of a layer ([`shape`]). Out:
//! the part of each block ([`plan`]), its stop word ([`stop_token`]), and the formulas behind its
//! sums ([`scratch_epilogue`], [`epilogue`]).
//!
//! Invariant: an [`Operand`](operand::Operand) was found inside of its buffer; shares of a
//! plan are disjoint and are the whole layer together.

pub(super) mod epilogue;
pub(super) mod operand;
pub(crate) mod operand_layout;
pub(super) mod plan;
pub(super) mod scratch_epilogue;
pub(super) mod shape;
pub(super) mod stop_token;
pub(super) mod window_offsets;
