//! Weights and biases in the order in which the kernels read them.
//!
//! ```text
//! convolution, per group:  bias of every output, then panels of COLUMNS outputs, each
//!                          one row of COLUMNS weights per step of the inner sum
//! depthwise:               bias, then one row of channels per tap
//! scale and shift:         bias, then weights
//! ```
//!
//! The inner sum of a convolution runs over row, column, channel of the window if the input is
//! native and over channel, row, column if it is planar: in the order in which the input lies in
//! memory, so that gathering copies runs.

#[cfg(target_arch = "x86_64")]
use super::convolution::winograd::filters;
use crate::kernels::blocks::operand::is_planar;
use crate::kernels::blocks::shape::{GroupShape, taps};
use crate::kernels::product::tile::COLUMNS;
use crate::memory::buffer::Buffer;
use reef_core::{Error, Result};
use reef_op::{Conv2d, Linear, Op, Window};

/// Refuses numbers of 8 bits, for which there are no kernels.
///
/// # Errors
///
/// `Unsupported`.
pub(super) fn refuse_quantized(op: &Op) -> Result<()> {
    if !op.is_quantized() {
        return Ok(());
    }
    let what = format!("numbers of 8 bits: no kernel for {op:?}");
    Err(Error::Unsupported { backend: "cpu", what })
}

/// Brings weights and bias into the kernels' order.
///
/// # Errors
///
/// `Invalid` if the lengths are not [`Op::constants`]; `OutOfMemory`; `Unsupported` for numbers of
/// 8 bits.
pub(crate) fn pack(op: &Op, weights: &[f32], bias: &[f32]) -> Result<Buffer> {
    op.check()?;
    refuse_quantized(op)?;
    let len = packed_len(op);
    let [want_weights, want_bias] = op.constants();
    if [weights.len(), bias.len()] != [want_weights, want_bias] {
        return Err(Error::invalid(
            "constants",
            format!(
                "must be {want_weights} weights and {want_bias} biases, got {} and {}",
                weights.len(),
                bias.len()
            ),
        ));
    }
    let buffer = Buffer::zeroed(len * size_of::<f32>())?;
    // SAFETY: the buffer is new, so nothing else reads or writes it, and it is `len` floats long.
    let to = unsafe { std::slice::from_raw_parts_mut(buffer.as_ptr().cast::<f32>(), len) };
    match op {
        Op::Conv2d(op) if is_depthwise(op) => pack_depthwise(op, weights, bias, to),
        #[cfg(target_arch = "x86_64")]
        Op::Conv2d(op) if filters::are_turned(op) => filters::pack(op, weights, bias, to),
        Op::Conv2d(op) => pack_conv(op, weights, bias, to),
        Op::Linear(op) => pack_conv(&as_conv(op), weights, bias, to),
        Op::ScaleShift(_) => {
            to[..bias.len()].copy_from_slice(bias);
            to[bias.len()..].copy_from_slice(weights);
        }
        Op::Pool2d(_) | Op::Activate(_) | Op::Multiply(_) => {}
    }
    Ok(buffer)
}

/// Floats of the packed constants of an op that was checked.
pub(in crate::kernels) fn packed_len(op: &Op) -> usize {
    match op {
        Op::Conv2d(op) if is_depthwise(op) => op.input.channels * (taps(op) + 1),
        #[cfg(target_arch = "x86_64")]
        Op::Conv2d(op) if filters::are_turned(op) => filters::packed_len(op),
        Op::Conv2d(op) => op.groups * GroupShape::of(op).packed(),
        Op::Linear(op) => GroupShape::of(&as_conv(op)).packed(),
        Op::ScaleShift(op) => 2 * op.input.channels,
        Op::Pool2d(_) | Op::Activate(_) | Op::Multiply(_) => 0,
    }
}

/// One filter per channel.
pub(in crate::kernels) fn is_depthwise(op: &Conv2d) -> bool {
    op.groups > 1
        && op.groups == op.input.channels
        && op.groups == op.output.channels
        && !is_planar(&op.input)
}

/// A fully connected layer is a convolution over one pixel.
pub(in crate::kernels) fn as_conv(op: &Linear) -> Conv2d {
    let window = Window { size: [1, 1], stride: [1, 1], padding: [0, 0] };
    let Linear { input, output, relu, function } = *op;
    Conv2d { input, output, window, groups: 1, residual: false, relu, function }
}

fn pack_depthwise(op: &Conv2d, weights: &[f32], bias: &[f32], to: &mut [f32]) {
    let (channels, taps) = (op.input.channels, taps(op));
    let (to_bias, rows) = to.split_at_mut(channels);
    to_bias.copy_from_slice(bias);
    for (i, row) in rows.chunks_exact_mut(channels).enumerate() {
        for (channel, to) in row.iter_mut().enumerate() {
            *to = weights[channel * taps + i];
        }
    }
}

fn pack_conv(op: &Conv2d, weights: &[f32], bias: &[f32], to: &mut [f32]) {
    let group = GroupShape::of(op);
    let order = inner_order(op);
    for (g, to) in to.chunks_exact_mut(group.packed()).enumerate() {
        let first = g * group.outputs;
        let (to_bias, panels) = to.split_at_mut(group.padded());
        to_bias[..group.outputs].copy_from_slice(&bias[first..first + group.outputs]);
        for (p, panel) in panels.chunks_exact_mut(group.depth * COLUMNS).enumerate() {
            let outputs = p * COLUMNS..group.outputs.min((p + 1) * COLUMNS);
            for (column, output) in outputs.enumerate() {
                let filter = &weights[(first + output) * group.depth..][..group.depth];
                for (row, &from) in panel.chunks_exact_mut(COLUMNS).zip(&order) {
                    row[column] = filter[from];
                }
            }
        }
    }
}

/// Index of the filter's weight for each step of the inner sum.
fn inner_order(op: &Conv2d) -> Vec<usize> {
    let (taps, channels) = (taps(op), op.input.channels / op.groups);
    if is_planar(&op.input) {
        return (0..taps * channels).collect();
    }
    (0..taps).flat_map(|tap| (0..channels).map(move |channel| channel * taps + tap)).collect()
}
