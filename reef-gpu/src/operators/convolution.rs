//! Convolutions: by tiles, with the input brought into the native layout first where it isn't, or one
//! output at a time.

use super::element::{Element, has_tensor_cores};
use super::map;
use super::operand::{Operand, check_window, is_planar};
use super::params::{ConvAnyParams, ConvParams, Divisor, View, WindowParams};
use super::tile::{Plan, SLAB, Shape, THREADS, Tile, WARPS, WAVES};
use super::{Site, blocks, invalid};
use crate::{Facts, Gpu, Vendor};
use reef_core::op::{Conv2d, Layout, Scratch, Tensor, Window};
use reef_core::{Launch, Result};

/// Bytes at the start of the scratch memory that are zero between launches: a count for each tile of a
/// split sum. There are fewer tiles, as two parts of each are blocks.
const COUNTS: usize = 4096;
/// Bytes that tiles copy at a time.
const CHUNK: usize = 16;

/// What tiles make of the input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gathered {
    /// Of the input, filled up to whole chunks.
    pub(super) channels: usize,
    /// Slabs of the sum for one output.
    pub(super) slabs: usize,
    /// Whether the input must be brought into this form first.
    converts: bool,
}

impl Gathered {
    /// `None` if tiles don't fit.
    pub(super) fn new(op: &Conv2d, element: Element) -> Option<Self> {
        if op.groups != 1 || is_planar(&op.output) {
            return None;
        }
        let converts = !Operand::at(0, op.input, element).is_in_pieces_of(CHUNK);
        let channels = op.input.channels.next_multiple_of(CHUNK / element.bytes());
        let sum = op.window.size.iter().product::<usize>() * channels * element.bytes();
        Some(Self { channels, slabs: sum.div_ceil(SLAB), converts })
    }

    /// The input in the form that tiles take.
    fn tensor(&self, input: &Tensor) -> Tensor {
        Tensor::new(Layout::Native, [input.batch, self.channels, input.height, input.width])
    }

    fn converted_bytes(&self, op: &Conv2d, element: Element) -> usize {
        if self.converts { self.tensor(&op.input).elements() * element.bytes() } else { 0 }
    }

    /// The product of matrices that it is.
    pub(super) fn shape(&self, op: &Conv2d) -> Shape {
        let Tensor { batch, channels: outputs, height, width, .. } = op.output;
        Shape { pixels: batch * height * width, outputs, slabs: self.slabs }
    }

    /// As measured if the device was asked to, and could; else as modelled.
    fn plan<V: Vendor>(&self, gpu: &Gpu<V>, op: &Conv2d) -> Plan {
        let tiles: &[Tile] = match gpu.facts() {
            facts if facts.tensor_cores && Element::of(gpu) != Element::F32 => &WARPS,
            Facts { wave: 64, .. } => &WAVES,
            _ => &THREADS,
        };
        let tuned = gpu.tuned().and_then(|chosen| chosen.plan(gpu, op, self, tiles).ok());
        tuned.unwrap_or_else(|| Plan::new(tiles, &self.shape(op), gpu.facts()))
    }
}

/// Counts, partial sums, the converted input.
pub(super) fn scratch<V: Vendor>(gpu: &Gpu<V>, op: &Conv2d) -> Scratch {
    let element = Element::of(gpu);
    let Some(gathered) = Gathered::new(op, element) else { return Scratch::default() };
    scratch_of(gpu, op, &gathered, &gathered.plan(gpu, op))
}

/// As [`scratch`], for this plan.
pub(super) fn scratch_of<V: Vendor>(
    gpu: &Gpu<V>,
    op: &Conv2d,
    gathered: &Gathered,
    plan: &Plan,
) -> Scratch {
    let converted = gathered.converted_bytes(op, Element::of(gpu));
    match partials_end(plan, &gathered.shape(op)) + converted {
        COUNTS => Scratch::default(),
        bytes => Scratch { zeroed: if plan.splits > 1 { COUNTS } else { 0 }, bytes },
    }
}

/// Where the converted input starts.
fn partials_end(plan: &Plan, shape: &Shape) -> usize {
    COUNTS + shape.partials(plan.splits).next_multiple_of(64)
}

pub(super) fn build<V: Vendor>(site: &Site<'_, V>, op: &Conv2d) -> Result<Vec<Launch<Gpu<V>>>> {
    check_window(&op.window, &op.input, &op.output)?;
    if op.residual != site.second.is_some() {
        return Err(invalid("a residual is asked for or given, but not both"));
    }
    match Gathered::new(op, site.element) {
        Some(gathered) => by_tiles(site, op, &gathered, &gathered.plan(site.gpu, op)),
        None => one_by_one(site, op).map(|launch| vec![launch]),
    }
}

/// The launches of a convolution that tiles fit.
pub(super) fn by_tiles<V: Vendor>(
    site: &Site<'_, V>,
    op: &Conv2d,
    gathered: &Gathered,
    plan: &Plan,
) -> Result<Vec<Launch<Gpu<V>>>> {
    let shape = gathered.shape(op);
    let need = scratch_of(site.gpu, op, gathered, plan).bytes;
    let memory = match site.scratch {
        _ if need == 0 => 0,
        Some(storage) => storage.buffer.range(storage.offset, need)?,
        None => return Err(invalid(format!("{need} bytes of scratch memory needed"))),
    };
    let mut launches = Vec::new();
    let mut input = site.input;
    if gathered.converts {
        let at = memory + partials_end(plan, &shape) as u64;
        input = Operand::at(at, gathered.tensor(&op.input), site.element);
        launches.push(map::convert(site, &site.input, &input)?);
    }
    let params = tile_params(site, op, &input, plan, &shape, memory);
    let Tile { pixels, outputs, threads, .. } = plan.tile;
    let name = format!("conv_{}_{pixels}x{outputs}", family(site));
    let count = params.pixel_tiles * params.output_tiles * params.splits;
    launches.push(site.launch_exactly(&name, count, threads, plan.tile.shared(), &params)?);
    Ok(launches)
}

/// How the kernels are called that multiply as this device does.
fn family<V: Vendor>(site: &Site<'_, V>) -> &'static str {
    match site.element {
        Element::Tf32 => "tf32",
        Element::F32 => "fp32",
        Element::F16 if has_tensor_cores(site.gpu) => "f16",
        Element::F16 => "fp16",
    }
}

fn tile_params<V: Vendor>(
    site: &Site<'_, V>,
    op: &Conv2d,
    input: &Operand,
    plan: &Plan,
    shape: &Shape,
    memory: u64,
) -> ConvParams {
    let output_tiles = shape.outputs.div_ceil(plan.tile.outputs) as u32;
    let pixel_tiles = shape.pixels.div_ceil(plan.tile.pixels) as u32;
    let (line, image) = (op.output.width as u32, (op.output.height * op.output.width) as u32);
    let channels = input.tensor.channels;
    // How much further the next slab is, counted in channels, then columns, then rows.
    let step = SLAB / site.element.bytes();
    let (taps, columns) = (step / channels, op.window.size[1]);
    let fours = site.output.is_in_fours() && op.output.channels.is_multiple_of(4);
    ConvParams {
        input: input.first(),
        weights: site.weights,
        bias: site.bias,
        residual: site.second.map_or(0, |residual| residual.first()),
        output: site.output.first(),
        partials: memory + COUNTS as u64,
        arrivals: memory,
        pixels: shape.pixels as u32,
        outputs: shape.outputs as u32,
        slabs: shape.slabs as u32,
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
        relu: op.relu.into(),
        fours: fours.into(),
    }
}

pub(super) fn window(window: &Window) -> WindowParams {
    let Window { size, stride, padding } = window;
    WindowParams {
        height: size[0] as u32,
        width: size[1] as u32,
        stride_down: stride[0] as u32,
        stride_right: stride[1] as u32,
        pad_up: padding[0] as u32,
        pad_left: padding[1] as u32,
    }
}

fn one_by_one<V: Vendor>(site: &Site<'_, V>, op: &Conv2d) -> Result<Launch<Gpu<V>>> {
    let count = (site.output.pixels() * op.output.channels) as u64;
    let params = ConvAnyParams {
        input: site.input.view(),
        output: site.output.view(),
        residual: site.second.map_or(View::default(), |residual| residual.view()),
        weights: site.weights,
        bias: site.bias,
        count,
        blocks: blocks(count, 256),
        outputs: (op.output.channels / op.groups) as u32,
        channels: (op.input.channels / op.groups) as u32,
        groups: op.groups as u32,
        window: window(&op.window),
        relu: op.relu.into(),
        unused: 0,
    };
    site.launch("conv_any", params.blocks, 256, &params)
}
