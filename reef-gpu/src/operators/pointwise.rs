//! Activations, and products of two tensors.

use super::operand::{Operand, check_same};
use super::params::{Divisor, PointwiseParams, View};
use super::site::{BoundOp, blocks};
use crate::gpu::Gpu;
use crate::vendor::calls::Vendor;
use reef_core::op::{Activate, Bounds, Function, Multiply};
use reef_core::tensor::{Binary, Formula, Scalar, Term, Unary};
use reef_core::{Error, Launch, Result};

const THREADS: u32 = 256;

/// What becomes of a value; `Work` in kernels/pointwise.h.
#[derive(Debug, Clone, Copy)]
#[repr(u32)]
enum Work {
    Clamp = 0,
    HardSigmoid = 1,
    HardSwish = 2,
    Product = 3,
}

pub(super) fn activate<V: Vendor>(
    bound: &BoundOp<'_, V>,
    op: &Activate,
) -> Result<Vec<Launch<Gpu<V>>>> {
    check_same(&op.input, &op.output)?;
    let (work, bounds) = match op.function {
        Function::Clamp(bounds) => (Work::Clamp, bounds),
        Function::HardSigmoid => (Work::HardSigmoid, Bounds::RELU6),
        Function::HardSwish => (Work::HardSwish, Bounds::RELU6),
        Function::Sigmoid => return Ok(vec![bound.formula(sigmoid())?]),
        Function::Swish => return Ok(vec![bound.formula(swish())?]),
    };
    launch(bound, work, bounds, None)
}

/// `1 / (1 + e^-x)`.
fn sigmoid() -> Formula {
    Formula(vec![
        Term::Input(0),
        Term::Unary(Unary::Neg, 0),
        Term::Unary(Unary::Exp, 1),
        Term::Scalar(Scalar::Real(1.0)),
        Term::Binary(Binary::Add, 2, 3),
        Term::Binary(Binary::Div, 3, 4),
    ])
}

fn swish() -> Formula {
    let mut formula = sigmoid();
    formula.0.push(Term::Binary(Binary::Mul, 5, 0));
    formula
}

pub(super) fn multiply<V: Vendor>(
    bound: &BoundOp<'_, V>,
    op: &Multiply,
) -> Result<Vec<Launch<Gpu<V>>>> {
    check_same(&op.input, &op.output)?;
    let factor = bound.second.ok_or_else(|| Error::invalid("a product without a factor"))?;
    let view = if is_gate(op) {
        View { pixel: 0, ..factor.view() }
    } else {
        check_same(&op.input, &op.factor)?;
        factor.view()
    };
    launch(bound, Work::Product, Bounds::RELU6, Some((factor, view)))
}

/// Whether each channel of each image has one factor.
fn is_gate(op: &Multiply) -> bool {
    op.factor.shape() == [op.input.batch, op.input.channels, 1, 1]
}

fn launch<V: Vendor>(
    bound: &BoundOp<'_, V>,
    work: Work,
    bounds: Bounds,
    factor: Option<(Operand, View)>,
) -> Result<Vec<Launch<Gpu<V>>>> {
    let operands = [Some(&bound.input), Some(&bound.output), factor.as_ref().map(|(of, _)| of)];
    let fours = operands.into_iter().flatten().all(Operand::is_in_fours);
    let tensor = bound.output.tensor;
    let channels = tensor.channels / if fours { 4 } else { 1 };
    let count = (bound.output.pixels() * channels) as u64;
    let pixels = (tensor.height * tensor.width) as u32;
    let params = PointwiseParams {
        input: bound.input.view(),
        factor: factor.map_or(View::default(), |(_, view)| view),
        output: bound.output.view(),
        count,
        blocks: blocks(count, THREADS),
        channels: channels as u32,
        pixels,
        work: work as u32,
        low: bounds.low(),
        high: bounds.high(),
        by_channels: Divisor::new(channels as u32),
        by_pixels: Divisor::new(pixels),
    };
    let name = if fours { "pointwise_fours" } else { "pointwise_any" };
    Ok(vec![bound.launch(name, params.blocks, THREADS, &params)?])
}
