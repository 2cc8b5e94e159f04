//! Steps of any formula, as chains see them, and what becomes of a value in a chain.

use reef_op::tensor::{Binary, Scalar, Unary};

/// A step of any formula, as chains see it.
#[derive(Debug, Clone, Copy)]
pub(in crate::kernels::tensor::formulas) enum ChainStep {
    /// No later step reads it.
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

/// Second operand of a step, next to the step before.
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

/// Operation on a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Link {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    Abs,
    Sqrt,
    Exp,
    Erf,
    Gelu,
}

impl Link {
    /// `None` if it has no vectors here.
    pub(super) fn unary(function: Unary) -> Option<Self> {
        Some(match function {
            Unary::Abs => Self::Abs,
            Unary::Sqrt => Self::Sqrt,
            Unary::Exp => Self::Exp,
            Unary::Erf => Self::Erf,
            _ => return None,
        })
    }

    /// `None` if it has no vectors here.
    pub(super) fn binary(function: Binary) -> Option<Self> {
        Some(match function {
            Binary::Add => Self::Add,
            Binary::Sub => Self::Sub,
            Binary::Mul => Self::Mul,
            Binary::Div => Self::Div,
            Binary::Min => Self::Min,
            Binary::Max => Self::Max,
            _ => return None,
        })
    }
}
