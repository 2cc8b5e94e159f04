//! Pooling.

use super::operand::check_window;
use super::params::{PoolParams, window};
use super::site::{BoundOp, blocks};
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use reef_core::{Error, Launch, Result};
use reef_op::{Pool2d, PoolKind};

/// `POOL_THREADS` in kernels/pool.h.
const THREADS: u32 = 256;
/// Pixels from which an image is large: there is one for each thread of a block that has four
/// channels.
const LARGE: usize = 256;

pub(super) fn build<V: Vendor>(bound: &BoundOp<'_, V>, op: &Pool2d) -> Result<Vec<Launch<Gpu<V>>>> {
    check_window(&op.window, &op.input, &op.output)?;
    if op.input.channels != op.output.channels {
        let (from, to) = (op.input.channels, op.output.channels);
        return Err(Error::invalid(
            "channels of the output",
            format!("must be {from}, as in the input, got {to}"),
        ));
    }
    let fours = bound.input.is_in_fours() && bound.output.is_in_fours();
    let channels = op.output.channels / if fours { 4 } else { 1 };
    let count = (bound.output.pixels() * channels) as u64;
    let params = PoolParams {
        input: bound.input.view(),
        output: bound.output.view(),
        count,
        blocks: blocks(count, THREADS),
        channels: channels as u32,
        window: window(&op.window),
        average: (op.kind == PoolKind::Average).into(),
        scale: 1.0 / op.window.size.iter().product::<usize>() as f32,
    };
    if let Some(numbers) = op.input.layout.quantized() {
        let lanes = if fours { "fours" } else { "any" };
        let name = format!("pool_{lanes}_{}", numbers.format().name());
        let kernels = bound.gpu.quantized()?;
        let launch = bound.launch_of(kernels, &name, params.blocks, THREADS, 0, &params)?;
        return Ok(vec![launch]);
    }
    let (name, blocks) = match op {
        _ if !fours => ("pool_any", params.blocks),
        op if !is_of_whole_images(op) => ("pool_fours", params.blocks),
        op => {
            let large = op.input.height * op.input.width >= LARGE;
            let (name, quads) = if large { ("pool_large_picture", 1) } else { ("pool_picture", 8) };
            (name, (op.input.batch * channels.div_ceil(quads)) as u32)
        }
    };
    Ok(vec![bound.launch(name, blocks, THREADS, &params)?])
}

fn is_of_whole_images(op: &Pool2d) -> bool {
    op.kind == PoolKind::Average
        && op.window.size == [op.input.height, op.input.width]
        && op.window.padding == [0; 2]
}
