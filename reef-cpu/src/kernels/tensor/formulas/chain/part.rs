//! Steps of any formula, as chains see them.

use reef_core::tensor::{Binary, Scalar, Unary};

/// A step of any formula, as chains see it.
#[derive(Debug, Clone, Copy)]
pub(in crate::kernels::tensor::formulas) enum Part {
    /// Nobody reads it.
    Unused,
    /// The values that are given.
    Start,
    Leaf(Leaf),
    Unary(Unary, usize),
    Binary(Binary, usize, usize),
    Gelu(usize),
    /// No part of a chain.
    Other,
}

/// What a step takes beside the one before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::kernels::tensor::formulas) enum Leaf {
    Input(usize),
    Number(f32),
}

impl Leaf {
    pub(in crate::kernels::tensor::formulas) fn of(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Real(number) => Self::Number(number as f32),
            Scalar::Whole(number) => Self::Number(number as f32),
        }
    }
}
