//! A convolution with its operands, for the kernels of convolutions.

use crate::kernels::blocks::epilogue::Epilogue;
use crate::kernels::blocks::operand::{Constants, Operand, check_window, is_planar};
use crate::kernels::blocks::operand_layout::OperandMemory;
use crate::memory::buffer::Buffer;
use reef_core::{Error, Result};
use reef_op::Conv2d;

/// A convolution and where its operands lie.
#[derive(Debug, Clone, Copy)]
pub(in crate::kernels) struct BoundConv<'a> {
    pub op: &'a Conv2d,
    pub input: &'a OperandMemory,
    pub residual: Option<&'a OperandMemory>,
    pub output: &'a OperandMemory,
    /// Packed, and as long as [`packed_len`](crate::kernels::images::pack::packed_len).
    pub constants: &'a Buffer,
    /// Units of the device.
    pub units: u32,
}

impl BoundConv<'_> {
    /// The output is what the window makes of the input.
    pub(in crate::kernels) fn check(&self) -> Result<()> {
        check_window(&self.op.window, &self.op.input, &self.op.output)
    }

    /// The input, in either layout.
    pub(in crate::kernels) fn input(&self) -> Result<Operand> {
        Operand::new(self.input, self.op.input)
    }

    /// The input, as rows of channels. `kernel` is the name in the error for other layouts.
    pub(in crate::kernels) fn native_input(&self, kernel: &str) -> Result<Operand> {
        Operand::native(self.input, self.op.input, &format!("{kernel} input"))
    }

    pub(in crate::kernels) fn constants(&self) -> Constants {
        Constants::new(self.constants.clone())
    }

    /// Operations on the sums.
    pub(in crate::kernels) fn epilogue(&self) -> Result<Epilogue> {
        let Self { op, residual, .. } = *self;
        if op.residual != residual.is_some() {
            return Err(Error::invalid("residual", "must be given exactly if it is asked for"));
        }
        Ok(Epilogue {
            output: Operand::native(self.output, op.output, "conv2d output")?,
            residual: residual
                .map(|place| Operand::native(place, op.output, "conv2d residual"))
                .transpose()?,
            relu: op.relu,
            function: op.function,
        })
    }

    /// Returns whether pixels can be the rows of the matrix as they lie.
    ///
    /// With pitches of 4 KiB and its multiples, the rows of a tile fall into so few sets of the L1
    /// cache that they evict each other; copying them costs less.
    pub(in crate::kernels) fn reads_in_place(&self) -> bool {
        self.sees_pixels() && !self.op.input.of.is_multiple_of(1024)
    }

    /// Returns whether each output sees the pixel of the input at its place, and no other.
    pub(in crate::kernels) fn sees_pixels(&self) -> bool {
        let Conv2d { input, window, .. } = self.op;
        let plain = window.size == [1, 1] && window.stride == [1, 1] && window.padding == [0, 0];
        plain && !is_planar(input)
    }
}
