//! Turns operations of networks into launches of kernels/network.cu.
//!
//! A native tensor lies pixel after pixel, each with all its channels (NHWC), as 32-bit floats or, with
//! `precision=fp16`, 16-bit ones. Storages have room for 32-bit floats either way. What the tiles of
//! `convolution` don't fit (groups, odd alignment, planes) goes to simple kernels that take any layout.

use super::convolution::build as convolution;
use super::element::Element;
use super::site::BoundOp;
use super::{map, pack, pointwise, pool};
use crate::driver::buffer::Buffer;
use crate::gpu::Gpu;
use crate::vendor::calls::Vendor;
use reef_core::op::{Op, Operands, Operators, Scratch};
use reef_core::{Launch, Result};

impl<V: Vendor> Operators for Gpu<V> {
    fn pack(&self, op: &Op, weights: &[f32], bias: &[f32]) -> Result<Buffer<V>> {
        let bytes = pack::pack(op, Element::of(self), weights, bias)?;
        let buffer = Buffer::device(self.context(), bytes.len())?;
        buffer.write(0, &bytes)?;
        Ok(buffer)
    }

    fn scratch(&self, op: &Op) -> Scratch {
        match op {
            Op::Conv2d(op) => convolution::scratch(self, op),
            _ => Scratch::default(),
        }
    }

    fn operator(&self, op: &Op, operands: &Operands<'_, Self>) -> Result<Vec<Launch<Self>>> {
        let bound = BoundOp::new(self, op, operands)?;
        match op {
            Op::Conv2d(op) => convolution::build(&bound, op),
            Op::Pool2d(op) => pool::build(&bound, op),
            Op::ScaleShift(op) => map::scale_shift(&bound, op),
            Op::Linear(op) => map::linear(&bound, op),
            Op::Activate(op) => pointwise::activate(&bound, op),
            Op::Multiply(op) => pointwise::multiply(&bound, op),
        }
    }
}
