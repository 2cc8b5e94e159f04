//! Operators of each element: activations, arithmetic, types, constants.

pub(super) mod activations;
pub(super) mod arithmetic;
pub(super) mod cast;
