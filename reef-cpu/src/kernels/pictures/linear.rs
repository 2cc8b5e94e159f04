//! Fully connected layers: a convolution over one pixel, bound by the memory that holds the
//! weights.

use super::convolution::bound_conv::BoundConv;
use super::convolution::gathered::block as gathered;
use super::pack::as_conv;
use crate::kernel::Kernel;
use crate::kernels::blocks::operand::Operand;
use crate::kernels::blocks::place::Place;
use crate::memory::buffer::Buffer;
use reef_core::op::{Linear, Tensor};
use reef_core::{Error, Result};

pub(in crate::kernels) fn build(
    op: &Linear,
    input: &Place,
    output: &Place,
    constants: Buffer,
    units: u32,
) -> Result<(Kernel, u32)> {
    for Tensor { height, width, .. } in [op.input, op.output] {
        if [height, width] != [1, 1] {
            return Err(Error::Invalid(format!(
                "cpu: a linear layer over {height}x{width} pixels"
            )));
        }
    }
    Operand::new(input, op.input)?;
    let (op, constants) = (&as_conv(op), &constants);
    gathered::build(&BoundConv { op, input, residual: None, output, constants, units })
}
