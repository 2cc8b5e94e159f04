//! What blocks of all kernels are made of.
//!
//! In: where operands lie ([`operand_layout`], [`operand`]) and how large a layer is ([`shape`]). Out: which
//! block computes what ([`plan`]), when it should stop ([`stop_token`]), and what becomes of its
//! sums ([`scratch_epilogue`], [`epilogue`]).
//!
//! What stays true: an [`Operand`](operand::Operand) was found inside of its buffer; shares of a
//! plan are disjoint and are the whole layer together.

pub(super) mod epilogue;
pub(super) mod operand;
pub(crate) mod operand_layout;
pub(super) mod plan;
pub(super) mod scratch_epilogue;
pub(super) mod shape;
pub(super) mod stop_token;
pub(super) mod window_offsets;
