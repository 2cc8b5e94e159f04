//! 1×1 convolutions of few terms with AVX-512, from inputs to outputs in registers.
//!
//! Where a sum has few terms, writing it to scratch memory and committing it later takes as long as
//! the product. A block is so small that the whole of it is a commit: it polls the stop word
//! once, before. Sums have the bits of [`gathered`](super::gathered), as their terms come in the
//! same order.

use super::bound_conv::BoundConv;
use crate::kernel::{Block, Kernel, Outcome};
use crate::kernels::blocks::epilogue::Epilogue;
use crate::kernels::blocks::operand::{Constants, Operand};
use crate::kernels::blocks::operand_layout::grid;
use crate::kernels::blocks::plan::{Costs, Plan, Share};
use crate::kernels::blocks::shape::GroupShape;
use crate::kernels::blocks::stop_token::StopToken;
use crate::kernels::product::avx512::ends::Ends;
use crate::kernels::product::avx512::tiles::multiply_to_the_end;
use crate::kernels::product::tile::{COLUMNS, Hints, ROWS, Tile};
use crate::kernels::values::register_epilogue::RegisterEpilogue;
use reef_core::Result;

/// Most terms of a sum.
const TERMS: usize = 72;
/// Most weights: they stay in the L1 cache, as each tile of pixels meets all of them.
const WEIGHTS: usize = 4 * 1024;
/// Products of a block: about five microseconds' worth.
const PRODUCTS: usize = 512 * 1024;
/// Outputs of a block.
const FLOATS: usize = 8 * 1024;
/// Tiles ahead whose outputs are brought near.
const AHEAD: usize = 4;

/// A convolution, ready to run.
#[derive(Debug)]
struct Direct {
    input: Operand,
    constants: Constants,
    epilogue: Epilogue,
    shape: GroupShape,
    plan: Plan,
}

/// The kernel of `conv`, which was checked; `None` if it isn't done this way on this machine.
///
/// # Errors
///
/// Returns the errors of [`gathered`](super::gathered::block::build).
pub(in crate::kernels) fn build(conv: &BoundConv<'_>) -> Result<Option<(Kernel, u32)>> {
    let shape = GroupShape::of(conv.op);
    let is_small = shape.depth <= TERMS && shape.depth * shape.padded() <= WEIGHTS;
    let fits = conv.op.groups == 1 && conv.reads_in_place() && is_small;
    if !fits || !is_x86_feature_detected!("avx512f") {
        return Ok(None);
    }
    conv.check()?;
    let epilogue = conv.epilogue()?;
    let costs = Costs { sums: FLOATS.min(PRODUCTS / shape.depth), ..Costs::READ };
    let direct = Direct {
        input: conv.input()?,
        constants: conv.constants(),
        plan: Plan::new(epilogue.output.pixels(), shape, 1, &costs, conv.units),
        epilogue,
        shape,
    };
    let blocks = grid(direct.plan.blocks())?;
    Ok(Some((Kernel::new("conv2d", move |block, _| direct.run(block)), blocks)))
}

impl Direct {
    fn run(&self, block: &mut Block<'_>) -> Outcome {
        if StopToken::of(block).is_set() {
            return Outcome::Stopped;
        }
        let share = self.plan.share(block.index as usize);
        for pixel in share.pixels.clone().step_by(ROWS) {
            for column in share.outputs.clone().step_by(COLUMNS) {
                self.tile(&share, pixel, column);
            }
        }
        Outcome::Done
    }

    /// Pixels and outputs of a share, as many as a tile has.
    fn tile(&self, share: &Share, pixel: usize, column: usize) {
        let GroupShape { depth, .. } = self.shape;
        let constants = self.constants.floats();
        let columns = COLUMNS.min(share.outputs.end - column);
        let (output, residual) = (&self.epilogue.output, self.epilogue.residual.as_ref());
        let panel = &constants[self.shape.padded() + column * depth..][..COLUMNS * depth];
        let bias = &constants[column..][..columns];
        let ahead = (pixel + ROWS).min(share.pixels.end - 1);
        let soon = (pixel + AHEAD * ROWS).min(output.pixels() - 1);
        let [to, from] = self.epilogue.touches(soon, column);
        let tile = Tile {
            a: self.input.at(pixel, 0),
            a_pitch: self.input.pitch(),
            b: panel.as_ptr(),
            sums: output.at(pixel, column),
            sums_pitch: output.pitch(),
            rows: ROWS.min(share.pixels.end - pixel),
            columns,
            depth,
            fresh: true,
            hints: Hints {
                next: panel.as_ptr(),
                next_step: 2 * COLUMNS,
                rows: self.input.at(ahead, 0),
                rows_pitch: self.input.pitch(),
                output: to,
                residual: from,
                pitch: output.pitch(),
            },
        };
        let ends = Ends {
            bias: bias.as_ptr(),
            residual: residual.map(|from| from.at(pixel, column).cast_const()),
            residual_pitch: residual.map_or(0, Operand::pitch),
            end: RegisterEpilogue { relu: self.epilogue.relu, function: self.epilogue.function },
        };
        // SAFETY: there is AVX-512, or this kernel wasn't built. The tile names pixels of the
        // operands, and the panel and the bias were measured. The block has borrowed the operands,
        // and shares of blocks are disjoint.
        unsafe { multiply_to_the_end(&tile, &ends) };
    }
}
