//! Scale and shift, conversion of layouts, and fully connected layers.

use super::activation::ActivationParams;
use super::element::Element;
use super::operand::{Operand, check_same};
use super::params::{Divisor, LinearParams, MapParams};
use super::site::{BoundOp, blocks};
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use reef_core::{Error, Launch, Result};
use reef_op::{Linear, ScaleShift};

const THREADS: u32 = 256;
/// Outputs of a block of the linear kernel: one for each warp.
const OUTPUTS: usize = THREADS as usize / 32;
/// Outputs of the linear kernel at most: it counts threads in 32 bits.
const MAX_OUTPUTS: usize = 1 << 27;

pub(super) fn scale_shift<V: Vendor>(
    bound: &BoundOp<'_, V>,
    op: &ScaleShift,
) -> Result<Vec<Launch<Gpu<V>>>> {
    check_same(&op.input, &op.output)?;
    let fours = bound.input.is_in_fours() && bound.output.is_in_fours();
    let params = MapParams {
        weights: bound.weights,
        bias: bound.bias,
        relu: op.relu.into(),
        rounds: bound.rounded.output.into(),
        ..params(&bound.input, &bound.output, if fours { 4 } else { 1 })
    };
    let name = if fours { "map_fours" } else { "map_any" };
    Ok(vec![bound.launch(name, params.blocks, THREADS, &params)?])
}

/// Copies `from` to `to`, which may have more channels: those become zero. Numbers are rounded as
/// products take them.
pub(super) fn convert<V: Vendor>(
    bound: &BoundOp<'_, V>,
    from: &Operand,
    to: &Operand,
) -> Result<Launch<Gpu<V>>> {
    let params =
        MapParams { rounds: (bound.element == Element::Tf32).into(), ..params(from, to, 1) };
    bound.launch("map_any", params.blocks, THREADS, &params)
}

/// A copy, `at_once` channels at a time.
fn params(input: &Operand, output: &Operand, at_once: usize) -> MapParams {
    let channels = output.tensor.channels / at_once;
    let count = (output.pixels() * channels) as u64;
    MapParams {
        input: input.view(),
        output: output.view(),
        weights: 0,
        bias: 0,
        count,
        blocks: blocks(count, THREADS),
        channels: channels as u32,
        given: input.tensor.channels as u32,
        relu: 0,
        by_channels: Divisor::new(channels as u32),
        rounds: 0,
        unused: 0,
    }
}

pub(super) fn linear<V: Vendor>(
    bound: &BoundOp<'_, V>,
    op: &Linear,
) -> Result<Vec<Launch<Gpu<V>>>> {
    if bound.input.pixels() != op.input.batch || bound.output.pixels() != op.input.batch {
        return Err(Error::invalid(
            "linear layer",
            format!("must be of one pixel, got {:?} to {:?}", op.input, op.output),
        ));
    }
    if op.output.channels > MAX_OUTPUTS {
        let have = op.output.channels;
        let what =
            format!("linear: outputs must be {MAX_OUTPUTS} or fewer, got {have}; split the layer");
        return Err(Error::Unsupported { backend: V::NAME, what });
    }
    let params = LinearParams {
        input: bound.input.view(),
        output: bound.output.view(),
        weights: bound.weights,
        bias: bound.bias,
        images: op.input.batch as u32,
        inputs: op.input.channels as u32,
        outputs: op.output.channels as u32,
        activation: ActivationParams::behind(op.relu, op.function),
        fours: bound.input.is_in_fours().into(),
        unused: 0,
    };
    let count = op.output.channels.div_ceil(OUTPUTS) as u32;
    Ok(vec![bound.launch("linear", count, THREADS, &params)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::fake::Fake;
    use crate::hal::options::Options;
    use crate::operators::pack;
    use reef_core::Device;
    use reef_op::{Layout, Op, Operands, Operators, Storage, Tensor};

    /// The kernel finds a warp's output from the number of its thread: beyond 2³² threads two warps
    /// would have one.
    #[test]
    fn linear_with_more_warps_than_a_word_counts_is_refused() {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let refusal = |outputs: usize| {
            let tensor = |channels| Tensor::new(Layout::Native, [1, channels, 1, 1]);
            let (input, output) = (tensor(1), tensor(outputs));
            let op = Op::Linear(Linear { input, output, relu: false, function: None });
            let [_, bytes] = pack::layout(&op, Element::F32).unwrap();
            let [constants, memory] = [bytes, 4 * outputs].map(|bytes| gpu.alloc(bytes).unwrap());
            let storage = || Storage { buffer: &memory, offset: 0 };
            let operands =
                Operands { constants: Some(&constants), ..Operands::new(storage(), storage()) };
            gpu.operator(&op, &operands).err()
        };
        assert_eq!(refusal(MAX_OUTPUTS), None);
        let refused = refusal(MAX_OUTPUTS + 1);
        assert!(matches!(refused, Some(Error::Unsupported { .. })), "{refused:?}");
    }
}
