//! Activations, and products of two tensors.

use super::activation::{ActivationParams, Work};
use super::operand::{Operand, check_same};
use super::params::{Divisor, PointwiseParams, View};
use super::site::{BoundOp, blocks};
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use reef_core::{Error, Launch, Result};
use reef_op::{Activate, Multiply};

const THREADS: u32 = 256;

pub(super) fn activate<V: Vendor>(
    bound: &BoundOp<'_, V>,
    op: &Activate,
) -> Result<Vec<Launch<Gpu<V>>>> {
    check_same(&op.input, &op.output)?;
    launch(bound, ActivationParams::of(op.function), None)
}

pub(super) fn multiply<V: Vendor>(
    bound: &BoundOp<'_, V>,
    op: &Multiply,
) -> Result<Vec<Launch<Gpu<V>>>> {
    check_same(&op.input, &op.output)?;
    let factor = bound.second.ok_or_else(|| Error::invalid("factor", "must be given"))?;
    let view = if is_gate(op) {
        View { pixel: 0, ..factor.view() }
    } else {
        check_same(&op.input, &op.factor)?;
        factor.view()
    };
    launch(bound, ActivationParams::work(Work::Product), Some((factor, view)))
}

/// Returns whether each channel of each image has one factor.
fn is_gate(op: &Multiply) -> bool {
    op.factor.shape() == [op.input.batch, op.input.channels, 1, 1]
}

fn launch<V: Vendor>(
    bound: &BoundOp<'_, V>,
    activation: ActivationParams,
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
        activation,
        by_channels: Divisor::new(channels as u32),
        by_pixels: Divisor::new(pixels),
    };
    let name = if fours { "pointwise_fours" } else { "pointwise_any" };
    Ok(vec![bound.launch(name, params.blocks, THREADS, &params)?])
}
