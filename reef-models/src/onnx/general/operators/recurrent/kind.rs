//! Differences of the three operators.

use super::function::Function;

/// Type of network, as its node says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Rnn,
    Gru {
        /// True if the reset gate comes behind the product of the hidden gate.
        linear_before_reset: bool,
    },
    Lstm {
        /// True if the forget gate is what the input gate leaves.
        coupled: bool,
    },
}

impl Kind {
    /// Rows of weights for each element of the state.
    pub(super) fn gates(self) -> usize {
        match self {
            Self::Rnn => 1,
            Self::Gru { .. } => 3,
            Self::Lstm { .. } => 4,
        }
    }

    /// Gates, from one to before another, whose recurrent products are made together.
    pub(super) fn joint_gates(self) -> &'static [[usize; 2]] {
        match self {
            Self::Rnn => &[[0, 1]],
            Self::Gru { .. } => &[[0, 2], [2, 3]],
            Self::Lstm { .. } => &[[0, 4]],
        }
    }

    /// Its functions, if a node names none.
    pub(super) fn usual(self) -> &'static [Function] {
        match self {
            Self::Rnn => &[Function::Tanh],
            Self::Gru { .. } => &[Function::Sigmoid, Function::Tanh],
            Self::Lstm { .. } => &[Function::Sigmoid, Function::Tanh, Function::Tanh],
        }
    }

    /// Operations of a step, at most.
    pub(super) fn operations(self) -> usize {
        match self {
            Self::Rnn => 4,
            Self::Gru { .. } => 12,
            Self::Lstm { .. } => 10,
        }
    }
}
