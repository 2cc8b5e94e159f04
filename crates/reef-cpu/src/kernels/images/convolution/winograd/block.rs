//! One block: some tiles times some outputs.
//!
//! ```text
//! turn what the tiles see                 (polling the stop word every few tiles)
//! for each panel of outputs
//!     for each point                      (a product: tiles × channels × COLUMNS)
//!         for each chunk of the channels
//!             for each ROWS tiles         (here it polls)
//!                 sums += turned inputs · panel
//!     turn the sums back
//! commit
//! ```

use super::filters::{shape, tiles};
use super::turn::{self, POINTS, SIDES};
use crate::kernel::{Block, Kernel, Outcome};
use crate::kernels::blocks::epilogue::Epilogue;
use crate::kernels::blocks::operand::{Constants, Operand};
use crate::kernels::blocks::operand_layout::grid;
use crate::kernels::blocks::plan::{Costs, Plan, Share};
use crate::kernels::blocks::shape::GroupShape;
use crate::kernels::blocks::stop_token::StopToken;
use crate::kernels::images::convolution::bound_conv::BoundConv;
use crate::kernels::product::multiply::multiply;
use crate::kernels::product::tile::{COLUMNS, Hints, LINE, ROWS, Tile, chunk_of, part_of_panel};
use crate::kernels::values::lanes::LANES;
use reef_core::Result;

/// Channels of a tile that are turned between two polls of the stop word.
const TURNED: usize = 512;
/// Pixels of an output tile.
pub(super) const PIXELS: usize = SIDES[0] * SIDES[0];
/// Floats between rows of turned inputs, so that they don't fall into the same sets of a cache.
const GAP: usize = LINE;

/// Sixteen sums become four outputs. Turned inputs shouldn't take more than half of a second cache
/// of 2 MiB.
const COSTS: Costs = Costs { input: 0.1, sum: 1.5, inputs: 256 * 1024, sums: 7 * 1024 };

pub(in crate::kernels) fn build(conv: &BoundConv<'_>) -> Result<(Kernel, u32)> {
    conv.check()?;
    let (op, shape) = (conv.op, shape(conv.op));
    let winograd = Winograd {
        input: conv.native_input("winograd")?,
        constants: conv.constants(),
        epilogue: conv.epilogue()?,
        shape,
        padding: op.window.padding,
        plan: Plan::new(tiles(op), shape, 1, &COSTS, conv.units),
        outside: vec![0.0; op.input.channels],
    };
    let blocks = grid(winograd.plan.blocks())?;
    Ok((Kernel::new("winograd", move |block, _| winograd.run(block)), blocks))
}

#[derive(Debug)]
pub(super) struct Winograd {
    input: Operand,
    pub(super) constants: Constants,
    pub(super) epilogue: Epilogue,
    shape: GroupShape,
    padding: [usize; 2],
    /// Plan of tiles and outputs.
    pub(super) plan: Plan,
    /// A pixel outside of the image.
    outside: Vec<f32>,
}

/// A share's memory.
pub(super) struct Scratch<'a> {
    /// Of each point a row of channels per tile, [`GAP`] floats apart.
    inputs: &'a mut [f32],
    /// Of each point a row of [`COLUMNS`] sums per tile.
    pub(super) points: &'a mut [f32],
    /// For both lines of tiles a row of outputs per pixel.
    pub(super) sums: &'a mut [f32],
}

impl Winograd {
    fn run(&self, block: &mut Block<'_>) -> Outcome {
        let share = self.plan.share(block.index as usize);
        let stop = StopToken::of(block);
        let mut scratch = self.scratch(block);
        if !self.turn(&share, &mut scratch, stop) {
            return Outcome::Stopped;
        }
        for column in (0..share.outputs.len()).step_by(COLUMNS) {
            let done = self.multiply(&share, column, &mut scratch, stop)
                && self.turn_back(&share, column, &mut scratch, stop);
            if !done {
                return Outcome::Stopped;
            }
        }
        if stop.is_set() {
            return Outcome::Stopped;
        }
        self.commit(&share, scratch.sums);
        Outcome::Done
    }

    pub(super) fn channels(&self) -> usize {
        self.outside.len()
    }

    fn scratch<'a>(&self, block: &'a mut Block<'_>) -> Scratch<'a> {
        let Plan { block_pixels: tiles, block_outputs, .. } = self.plan;
        let inputs = POINTS * tiles * (self.channels() + GAP);
        let (points, sums) = (POINTS * tiles * COLUMNS, PIXELS * tiles * block_outputs);
        let memory = block.scratch(LANES + inputs + points + sums);
        let start = memory.as_ptr().align_offset(LANES * size_of::<f32>()).min(LANES);
        let (inputs, rest) = memory[start..].split_at_mut(inputs);
        let (points, rest) = rest.split_at_mut(points);
        Scratch { inputs, points, sums: &mut rest[..sums] }
    }

    /// Turns what a share's tiles see. Gives `false` if the block should stop.
    fn turn(&self, share: &Share, scratch: &mut Scratch<'_>, stop: StopToken<'_>) -> bool {
        let pitch = self.channels() + GAP;
        let plane = self.plan.block_pixels * pitch;
        let at_once = (TURNED / self.channels()).max(1);
        for (row, tile) in share.pixels.clone().enumerate() {
            if row % at_once == 0 && stop.is_set() {
                return false;
            }
            // SAFETY: there is AVX-512, or filters weren't turned.
            unsafe {
                turn::inputs(&self.pixels_of(tile), &mut scratch.inputs[row * pitch..], plane)
            };
        }
        true
    }

    /// Image, row and column of a tile's first pixel.
    pub(super) fn corner(&self, tile: usize) -> [usize; 3] {
        let tensor = &self.epilogue.output.tensor;
        let [rows, columns] = [tensor.height, tensor.width].map(|size| size.div_ceil(SIDES[0]));
        [tile / columns / rows, tile / columns % rows * SIDES[0], tile % columns * SIDES[0]]
    }

    /// The pixels that a tile sees.
    pub(super) fn pixels_of(&self, tile: usize) -> [&[f32]; POINTS] {
        let [image, y, x] = self.corner(tile);
        let tensor = &self.input.tensor;
        std::array::from_fn(|i| {
            let y = (y + i / SIDES[1]).wrapping_sub(self.padding[0]);
            let x = (x + i % SIDES[1]).wrapping_sub(self.padding[1]);
            if y >= tensor.height || x >= tensor.width {
                return &self.outside[..];
            }
            let pixel = (image * tensor.height + y) * tensor.width + x;
            // SAFETY: the block has borrowed the input, so nothing writes it meanwhile.
            unsafe { self.input.read(pixel, 0, self.channels()) }
        })
    }

    /// The sixteen products for a panel's outputs. Gives `false` if the block should stop.
    fn multiply(
        &self,
        share: &Share,
        column: usize,
        scratch: &mut Scratch<'_>,
        stop: StopToken<'_>,
    ) -> bool {
        let (channels, tiles) = (self.channels(), self.plan.block_pixels);
        let pitch = channels + GAP;
        let (chunk, all) = (chunk_of(channels), share.pixels.len().div_ceil(ROWS));
        for point in 0..POINTS {
            for first in (0..channels).step_by(chunk) {
                let depth = chunk.min(channels - first);
                let panel = self.panel(share, column, point, first);
                assert!(panel.len() >= depth * COLUMNS);
                for row in (0..share.pixels.len()).step_by(ROWS) {
                    if stop.is_set() {
                        return false;
                    }
                    let inputs = &scratch.inputs[(point * tiles + row) * pitch + first..];
                    let sums = &mut scratch.points[(point * tiles + row) * COLUMNS..];
                    let rows = ROWS.min(share.pixels.len() - row);
                    assert!((rows - 1) * pitch + depth <= inputs.len());
                    assert!(rows * COLUMNS <= sums.len());
                    // The next panel lies behind this one.
                    let next = panel.as_ptr().wrapping_add(depth * COLUMNS);
                    let (next, next_step) = part_of_panel(next, depth, [row / ROWS, all]);
                    let own = sums.as_ptr();
                    let ahead = if row + ROWS < share.pixels.len() { ROWS * pitch } else { 0 };
                    let tile = Tile {
                        a: inputs.as_ptr(),
                        a_pitch: pitch,
                        b: panel.as_ptr(),
                        sums: sums.as_mut_ptr(),
                        sums_pitch: COLUMNS,
                        rows,
                        columns: COLUMNS,
                        depth,
                        fresh: first == 0,
                        hints: Hints {
                            next,
                            next_step,
                            rows: inputs.as_ptr().wrapping_add(ahead),
                            rows_pitch: pitch,
                            output: own,
                            residual: own,
                            pitch: COLUMNS,
                        },
                    };
                    // SAFETY: rows, panel and sums were measured, and the sums are ours alone.
                    unsafe { multiply(&tile) };
                }
            }
        }
        true
    }

    /// The numbers of `point` for a share's outputs from `column` on, from a channel on.
    pub(super) fn panel(
        &self,
        share: &Share,
        column: usize,
        point: usize,
        channel: usize,
    ) -> &[f32] {
        let panel = (share.outputs.start + column) / COLUMNS * self.shape.depth;
        let row = panel + point * self.channels() + channel;
        &self.constants.floats()[self.shape.padded() + row * COLUMNS..]
    }
}
