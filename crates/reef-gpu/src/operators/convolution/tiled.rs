//! The launches of a convolution by a given plan, with the input brought into the native layout
//! first where it isn't, and the scratch memory that they need.

use super::quantized;
use crate::code::loaded::Builds;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::operators::activation::ActivationParams;
use crate::operators::element::{Element, has_tensor_cores};
use crate::operators::map;
use crate::operators::operand::Operand;
use crate::operators::params::{ConvParams, Divisor, window};
use crate::operators::site::BoundOp;
use crate::operators::tiles::common::MAX_SPLIT_TILES;
use crate::operators::tiles::slabs::{ImplicitGemm, Shape};
use crate::operators::tiles::tile::{Body, Plan, Tile};
use reef_core::{Error, Launch, Result};
use reef_op::rounding::Rounded;
use reef_op::{Conv2d, Scratch};

/// Bytes at the start of the scratch memory that are zero between launches: a count for each tile
/// of a split sum. There are fewer tiles, as two parts of each are blocks.
pub(super) const COUNTS: usize = MAX_SPLIT_TILES * size_of::<u32>();

/// Counts, partial sums, the converted input.
pub(super) fn scratch_of<V: Vendor>(
    gpu: &Gpu<V>,
    op: &Conv2d,
    gemm: &ImplicitGemm,
    plan: &Plan,
) -> Scratch {
    let converted = gemm.converted_bytes(op, Element::of(gpu));
    match partials_end(plan, &gemm.shape(op)) + converted {
        COUNTS => Scratch::default(),
        bytes => Scratch { zeroed: if plan.splits > 1 { COUNTS } else { 0 }, bytes },
    }
}

/// Offset at which the converted input starts.
fn partials_end(plan: &Plan, shape: &Shape) -> usize {
    COUNTS + shape.partials(plan.splits).next_multiple_of(64)
}

/// The launches of a convolution that tiles fit.
pub(super) fn by_tiles<V: Vendor>(
    bound: &BoundOp<'_, V>,
    op: &Conv2d,
    gemm: &ImplicitGemm,
    plan: &Plan,
) -> Result<Vec<Launch<Gpu<V>>>> {
    check_words(bound, op, gemm)?;
    let shape = gemm.shape(op);
    let need = scratch_of(bound.gpu, op, gemm, plan).bytes;
    let memory = scratch_memory(bound, need)?;
    let mut launches = Vec::new();
    let mut input = bound.input;
    if gemm.converts {
        let at = memory + partials_end(plan, &shape) as u64;
        input = Operand::at(at, gemm.tensor(&op.input), bound.element);
        launches.push(map::convert(bound, &bound.input, &input)?);
    }
    let parts = [memory, memory + COUNTS as u64];
    let params = tile_params(bound, op, &input, plan, &shape, parts);
    let Tile { pixels, outputs, threads, body, .. } = plan.tile;
    let family = family(bound.gpu, op, gemm, bound.rounded);
    let name = format!("{}_{family}_{pixels}x{outputs}", body.prefix());
    let count = params.pixel_tiles * params.output_tiles * params.splits;
    let builds = builds(bound.gpu, body)?;
    launches.push(bound.launch_of(builds, &name, count, threads, plan.tile.shared(), &params)?);
    Ok(launches)
}

/// Address of this much scratch memory; 0 if none is needed.
pub(super) fn scratch_memory<V: Vendor>(bound: &BoundOp<'_, V>, need: usize) -> Result<u64> {
    match bound.scratch {
        _ if need == 0 => Ok(0),
        Some(storage) => storage.buffer.range(storage.offset, need),
        None => Err(Error::invalid("scratch", format!("must have {need} bytes, got none"))),
    }
}

/// The loaded source of a tile's kernels.
fn builds<V: Vendor>(gpu: &Gpu<V>, body: Body) -> Result<&Builds<V>> {
    match body {
        Body::Network => gpu.network(),
        Body::Quantized => gpu.quantized(),
        Body::Groups | Body::ProductGroups => gpu.found_groups(),
    }
}

/// Returns whether tiles of warpgroups multiply the numbers of this family as they are: they don't
/// round, so that singles must be rounded where they are written.
pub(super) fn is_rounded(family: &str) -> bool {
    matches!(family, "rounded" | "f16") || family.starts_with("int8") || family.starts_with("fp8")
}

/// Refuses what the kernels' words can't count: they would read at other places.
fn check_words<V: Vendor>(bound: &BoundOp<'_, V>, op: &Conv2d, gemm: &ImplicitGemm) -> Result<()> {
    if gemm.fits_words(op, bound.element) {
        return Ok(());
    }
    let ([rows, columns], input) = (op.window.size, op.input);
    let what = format!(
        "conv2d: a window must reach over less than 2 GiB of its input and weights, got {rows}x{columns} over {:?} in \
         {} channels; take a narrower input",
        input.shape(),
        input.of
    );
    Err(Error::Unsupported { backend: V::NAME, what })
}

/// Name of the kernels that multiply as this device does.
pub(super) fn family<V: Vendor>(
    gpu: &Gpu<V>,
    op: &Conv2d,
    gemm: &ImplicitGemm,
    rounded: Rounded,
) -> &'static str {
    if let Some(family) = quantized::family(op) {
        return family;
    }
    match Element::of(gpu) {
        // Converted values are rounded on the way.
        Element::Tf32 if rounded.input || gemm.converts => "rounded",
        Element::Tf32 => "tf32",
        Element::F32 => "fp32",
        Element::F16 if has_tensor_cores(gpu) => "f16",
        Element::F16 | Element::Eight(_) => "fp16",
    }
}

/// The function of outputs, which are counted in their scale.
fn activation(op: &Conv2d) -> ActivationParams {
    let activation = ActivationParams::behind(op.relu, op.function);
    let numbers = op.output.layout.quantized();
    numbers.map_or(activation, |numbers| activation.counted_in(numbers.scale()))
}

/// Parameters of a convolution. `parts`: addresses of its counts and of its parts of sums.
pub(super) fn tile_params<V: Vendor>(
    bound: &BoundOp<'_, V>,
    op: &Conv2d,
    input: &Operand,
    plan: &Plan,
    shape: &Shape,
    [arrivals, partials]: [u64; 2],
) -> ConvParams {
    let output_tiles = shape.outputs.div_ceil(plan.tile.outputs) as u32;
    let pixel_tiles = shape.pixels.div_ceil(plan.tile.pixels) as u32;
    let (line, image) = (op.output.width as u32, (op.output.height * op.output.width) as u32);
    let channels = input.tensor.channels;
    // How much further the next slab is, counted in channels, then columns, then rows.
    let body = plan.tile.body;
    let step = body.slab() / input.element_bytes();
    let (taps, columns) = (step / channels, op.window.size[1]);
    ConvParams {
        input: input.first(),
        weights: bound.weights,
        bias: bound.bias,
        residual: bound.second.map_or(0, |residual| residual.first()),
        output: bound.output.first(),
        partials,
        arrivals,
        pixels: shape.pixels as u32,
        outputs: shape.outputs as u32,
        slabs: body.slabs(shape.slabs) as u32,
        splits: plan.splits as u32,
        by_output_tiles: Divisor::new(output_tiles),
        by_pixel_tiles: Divisor::new(pixel_tiles),
        output_tiles,
        pixel_tiles,
        by_image: Divisor::new(image),
        by_line: Divisor::new(line),
        image,
        line,
        height: op.input.height as u32,
        width: op.input.width as u32,
        channels: channels as u32,
        input_pitch: input.tensor.of as u32,
        output_pitch: op.output.of as u32,
        window: window(&op.window),
        by_channels: Divisor::new(channels as u32),
        by_window_width: Divisor::new(columns as u32),
        slab_rows: (taps / columns) as u32,
        slab_columns: (taps % columns) as u32,
        slab_channels: (step % channels) as u32,
        activation: activation(op),
        fours: bound.output.is_in_fours().into(),
        rounds: bound.rounded.output.into(),
        unused: 0,
    }
}
