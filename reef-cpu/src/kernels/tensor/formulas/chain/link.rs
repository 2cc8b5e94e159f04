//! What becomes of a value in a chain.

use reef_core::tensor::{Binary, Unary};

/// What becomes of a value.
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
