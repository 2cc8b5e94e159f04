//! Shape of a convolution as products of matrices.

use crate::kernels::product::tile::COLUMNS;
use reef_op::Conv2d;

/// The product that one group of a convolution is.
#[derive(Debug, Clone, Copy)]
pub(in crate::kernels) struct GroupShape {
    /// Outputs.
    pub outputs: usize,
    /// Terms of each sum.
    pub depth: usize,
}

impl GroupShape {
    pub(in crate::kernels) fn of(op: &Conv2d) -> Self {
        Self {
            outputs: op.output.channels / op.groups,
            depth: op.input.channels / op.groups * taps(op),
        }
    }

    /// Outputs, filled up to whole panels.
    pub(in crate::kernels) fn padded(&self) -> usize {
        self.outputs.next_multiple_of(COLUMNS)
    }

    /// Floats of bias and panels.
    pub(in crate::kernels) fn packed(&self) -> usize {
        self.padded() * (self.depth + 1)
    }
}

/// Positions within the window.
pub(in crate::kernels) fn taps(op: &Conv2d) -> usize {
    op.window.size.iter().product()
}
