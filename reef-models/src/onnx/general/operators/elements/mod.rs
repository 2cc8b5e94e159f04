//! Operators of each element: activations, arithmetic, types, constants, steps of optimizers.

pub(super) mod activations;
pub(super) mod arithmetic;
pub(super) mod cast;
pub(super) mod retired;
pub(super) mod training;
