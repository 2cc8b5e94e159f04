//! Convolutions as products of gathered windows and packed panels.
//!
//! A block computes some pixels times some outputs of one group:
//!
//! ```text
//! for each chunk of the inner sum       (a few hundred terms: a panel's part fits the L1 cache)
//!     gather the windows of the pixels  (unless the pixels themselves are the rows)
//!     for each panel of outputs
//!         for each tile of pixels       (about a microsecond; here it looks at the stop word)
//!             sums += rows · panel      (in scratch memory)
//! commit the sums
//! ```

use super::bound_conv::BoundConv;
use super::epilogue::{Epilogue, Sums};
use super::finish::Finish;
use super::gather::{Columns, Gather, SLACK, first_element};
use super::operand::{Constants, Operand};
use super::place::grid;
use super::plan::{Costs, Plan, Share};
use super::product;
use super::shape::GroupShape;
use super::stop_token::StopToken;
use super::tile::{COLUMNS, Hints, LINE, ROWS, Tile, chunk_of, part_of_panel};
use crate::kernel::{Block, Kernel, Outcome};
use reef_core::Result;

/// Windows that are gathered between two looks at the stop word.
const GATHERED: usize = 16;

/// The kernel of any convolution.
///
/// # Errors
///
/// `Invalid` if shapes contradict each other or a storage is too small; `Unsupported` for outputs in planes.
pub(super) fn build(conv: &BoundConv<'_>) -> Result<(Kernel, u32)> {
    build_finished("conv2d", conv, None)
}

/// As [`build`], with a formula behind the sums if there is one.
pub(super) fn build_finished(
    name: &'static str,
    conv: &BoundConv<'_>,
    finish: Option<Box<dyn Finish>>,
) -> Result<(Kernel, u32)> {
    let conv = Conv::new(conv, finish)?;
    let blocks = grid(conv.plan.blocks())?;
    Ok((Kernel::new(name, move |block, _| conv.run(block)), blocks))
}

/// A convolution, ready to run.
#[derive(Debug)]
struct Conv {
    input: Operand,
    constants: Constants,
    epilogue: Epilogue,
    shape: GroupShape,
    /// Input channels of a group.
    group_inputs: usize,
    plan: Plan,
    /// Units of the device, which take turns at blocks.
    units: usize,
    gather: Gather,
    chunks: Vec<Columns>,
    /// Floats from a gathered row to the next; 0 if the input's pixels are the rows.
    gathered_pitch: usize,
    /// What becomes of sums before they are committed.
    finish: Option<Box<dyn Finish>>,
}

/// A share's memory: sums, then gathered rows, then what the finish wants.
struct Scratch {
    sums: *mut f32,
    sums_pitch: usize,
    gathered: *mut f32,
    finish: *mut f32,
}

impl Conv {
    fn new(conv: &BoundConv<'_>, finish: Option<Box<dyn Finish>>) -> Result<Self> {
        conv.check()?;
        let (input, epilogue, op) = (conv.input()?, conv.epilogue()?, conv.op);
        let (pixels, shape) = (epilogue.output.pixels(), GroupShape::of(op));
        let gather = Gather::new(op);
        let depth = chunk_of(shape.depth);
        let chunks = gather.chunks(op, depth);
        let (costs, gathered_pitch) = match conv.reads_in_place() {
            true => (&Costs::READ, 0),
            false => (&Costs::GATHER, depth + LINE),
        };
        Ok(Self {
            plan: Plan::new(pixels, shape, op.groups, costs, conv.units),
            units: conv.units as usize,
            gathered_pitch,
            group_inputs: op.input.channels / op.groups,
            constants: conv.constants(),
            input,
            epilogue,
            shape,
            gather,
            chunks,
            finish,
        })
    }

    fn run(&self, block: &mut Block<'_>) -> Outcome {
        let share = self.plan.share(block.index as usize);
        let after = self.plan.share(self.after(block));
        let stop = StopToken::of(block);
        let scratch = self.scratch(block);
        let mut first_term = 0;
        for chunk in &self.chunks {
            if !self.gather(chunk, &share, &scratch, stop) {
                return Outcome::Stopped;
            }
            if !self.multiply(chunk, first_term, [&share, &after], &scratch, stop) {
                return Outcome::Stopped;
            }
            first_term += chunk.depth;
        }
        if !self.finish(&share, &scratch, stop) || stop.seen() {
            return Outcome::Stopped;
        }
        self.commit(&share, &scratch);
        Outcome::Done
    }

    /// The block that the unit of `block` probably takes next: units take turns, some from the front and some from the
    /// back.
    fn after(&self, block: &Block<'_>) -> usize {
        let (index, step) = (block.index as usize, self.units.div_ceil(2));
        if block.unit.is_multiple_of(2) {
            (index + step).min(self.plan.blocks() - 1)
        } else {
            index.saturating_sub(step)
        }
    }

    /// Takes what the largest share needs, so that the memory grows once.
    fn scratch(&self, block: &mut Block<'_>) -> Scratch {
        let Plan { block_pixels, block_outputs, .. } = self.plan;
        let sums = self.plan.sums();
        let gathered = block_pixels * self.gathered_pitch + SLACK;
        let finish = self.finish.as_ref().map_or(0, |finish| finish.scratch());
        let memory = block.scratch(LINE + sums + gathered + finish).as_mut_ptr();
        let start = memory.wrapping_add(memory.align_offset(LINE * size_of::<f32>()));
        let (sums_pitch, gathered_start) = (block_outputs, start.wrapping_add(sums));
        let finish = gathered_start.wrapping_add(gathered);
        Scratch { sums: start, sums_pitch, gathered: gathered_start, finish }
    }

    /// Makes of sums what becomes of them. Gives `false` if the block should stop.
    fn finish(&self, share: &Share, scratch: &Scratch, stop: StopToken<'_>) -> bool {
        let Some(finish) = &self.finish else { return true };
        let len = share.pixels.len() * scratch.sums_pitch;
        // SAFETY: both are parts of scratch memory of these lengths, which only we use, and don't overlap.
        let (sums, own) = unsafe {
            (
                std::slice::from_raw_parts_mut(scratch.sums, len),
                std::slice::from_raw_parts_mut(scratch.finish, finish.scratch()),
            )
        };
        finish.rows(sums, scratch.sums_pitch, share, own, stop)
    }

    /// Gathers a share's windows. Gives `false` if the block should stop.
    fn gather(
        &self,
        chunk: &Columns,
        share: &Share,
        scratch: &Scratch,
        stop: StopToken<'_>,
    ) -> bool {
        if self.gathered_pitch == 0 {
            return true;
        }
        let start = first_element(&self.input, share.group * self.group_inputs);
        for row in (0..share.pixels.len()).step_by(GATHERED) {
            if stop.seen() {
                return false;
            }
            let first = share.pixels.start + row;
            let pixels = first..share.pixels.end.min(first + GATHERED);
            let to = scratch.gathered.wrapping_add(row * self.gathered_pitch);
            // SAFETY: scratch memory has a row for each pixel of a share; launches don't overlap
            // with writers of their input.
            unsafe { self.gather.rows(start, chunk, pixels, to, self.gathered_pitch) };
        }
        true
    }

    /// Adds a chunk's terms to the sums of `share`, and brings near what comes `after` it. Gives `false` if the block
    /// should stop.
    fn multiply(
        &self,
        chunk: &Columns,
        first_term: usize,
        [share, after]: [&Share; 2],
        scratch: &Scratch,
        stop: StopToken<'_>,
    ) -> bool {
        let last = first_term + chunk.depth == self.shape.depth;
        let (a, a_pitch) = self.rows(first_term, share, scratch);
        for column in (0..share.outputs.len()).step_by(COLUMNS) {
            let b = self.panel(share, column, first_term);
            let next = self.next_panel([share, after], column, first_term, chunk);
            let tiles = share.pixels.len().div_ceil(ROWS);
            for row in (0..share.pixels.len()).step_by(ROWS) {
                if stop.seen() {
                    return false;
                }
                let next = part_of_panel(next, chunk.depth, [row / ROWS, tiles]);
                let ahead = if row + ROWS < share.pixels.len() { row + ROWS } else { 0 };
                let ahead = a.wrapping_add(ahead * a_pitch);
                let tile = Tile {
                    a: a.wrapping_add(row * a_pitch),
                    a_pitch,
                    b: b.as_ptr(),
                    sums: scratch.sums.wrapping_add(row * scratch.sums_pitch + column),
                    sums_pitch: scratch.sums_pitch,
                    rows: ROWS.min(share.pixels.len() - row),
                    columns: COLUMNS.min(share.outputs.len() - column),
                    depth: chunk.depth,
                    fresh: first_term == 0,
                    hints: self.hints(share, [row, column], next, ahead, last),
                };
                assert!(b.len() >= chunk.depth * COLUMNS);
                // SAFETY: `rows` gives a row per pixel, the panel was measured, and the sums have
                // `block_pixels` rows of `block_outputs`, which is whole panels.
                unsafe { product::multiply(&tile) };
            }
        }
        true
    }

    /// The matrix of windows from column `first_term` on, and its pitch.
    fn rows(&self, first_term: usize, share: &Share, scratch: &Scratch) -> (*const f32, usize) {
        if self.gathered_pitch > 0 {
            return (scratch.gathered, self.gathered_pitch);
        }
        let channel = share.group * self.group_inputs + first_term;
        (self.input.at(share.pixels.start, channel), self.input.pitch())
    }

    /// The panel with a share's outputs from `column` on, from a term of the sum on.
    fn panel(&self, share: &Share, column: usize, first_term: usize) -> &[f32] {
        let panel = (share.outputs.start + column) / COLUMNS * self.shape.depth;
        let group = &self.constants.floats()[share.group * self.shape.packed()..];
        &group[self.shape.padded()..][(panel + first_term) * COLUMNS..]
    }

    /// The panel that comes after the one at `column`: of the same share, or the first one of the share `after` it.
    fn next_panel(
        &self,
        [share, after]: [&Share; 2],
        column: usize,
        term: usize,
        chunk: &Columns,
    ) -> *const f32 {
        let next_term = term + chunk.depth;
        let next = if column + COLUMNS < share.outputs.len() {
            self.panel(share, column + COLUMNS, term)
        } else if next_term < self.shape.depth {
            self.panel(share, 0, next_term)
        } else {
            self.panel(after, 0, 0)
        };
        next.as_ptr()
    }

    /// What a tile should bring near: `next` of the panels, `rows`, and in the `last` chunk what the commit touches.
    fn hints(
        &self,
        share: &Share,
        [row, column]: [usize; 2],
        (next, next_step): (*const f32, usize),
        rows: *const f32,
        last: bool,
    ) -> Hints {
        if !last {
            return Hints { next, next_step, rows, output: next, residual: next, pitch: 0 };
        }
        let channel = share.group * self.shape.outputs + share.outputs.start + column;
        let [output, residual] = self.epilogue.touches(share.pixels.start + row, channel);
        Hints { next, next_step, rows, output, residual, pitch: self.epilogue.output.pitch() }
    }

    fn commit(&self, share: &Share, scratch: &Scratch) {
        let bias = &self.constants.floats()[share.group * self.shape.packed()..];
        let len = share.pixels.len() * scratch.sums_pitch;
        // SAFETY: the sums are initialised scratch memory of this length, which only we use.
        let sums = unsafe { std::slice::from_raw_parts(scratch.sums, len) };
        let sums = Sums {
            sums,
            pitch: scratch.sums_pitch,
            pixels: share.pixels.clone(),
            channel: share.group * self.shape.outputs + share.outputs.start,
            bias: &bias[share.outputs.clone()],
        };
        // SAFETY: shares are disjoint, and launches don't overlap with writers of their residual.
        unsafe { self.epilogue.commit(&sums) };
    }
}
