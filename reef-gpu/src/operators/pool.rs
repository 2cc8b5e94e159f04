//! Pooling.

use super::operand::check_window;
use super::params::{PoolParams, window};
use super::site::{BoundOp, blocks};
use crate::gpu::Gpu;
use crate::vendor::calls::Vendor;
use reef_core::op::{Pool2d, PoolKind};
use reef_core::{Error, Launch, Result};

const THREADS: u32 = 256;

pub(super) fn build<V: Vendor>(bound: &BoundOp<'_, V>, op: &Pool2d) -> Result<Vec<Launch<Gpu<V>>>> {
    check_window(&op.window, &op.input, &op.output)?;
    if op.input.channels != op.output.channels {
        return Err(Error::invalid(format!("pool of {:?} to {:?}", op.input, op.output)));
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
    let launch = if fours && is_of_whole_pictures(op) {
        bound.launch(
            "pool_picture",
            (op.input.batch * channels.div_ceil(8)) as u32,
            THREADS,
            &params,
        )
    } else {
        bound.launch(if fours { "pool_fours" } else { "pool_any" }, params.blocks, THREADS, &params)
    };
    Ok(vec![launch?])
}

fn is_of_whole_pictures(op: &Pool2d) -> bool {
    op.kind == PoolKind::Average
        && op.window.size == [op.input.height, op.input.width]
        && op.window.padding == [0; 2]
}
