//! Convolutions as products of gathered windows and packed panels.
//!
//! A block computes some pixels times some outputs of one group:
//!
//! ```text
//! for each chunk of the inner sum       (a few hundred terms: a panel's part fits the L1 cache)
//!     gather the windows of the pixels  (unless the pixels themselves are the rows)
//!     for each panel of outputs
//!         for each tile of pixels       (about a microsecond; here it polls the stop word)
//!             sums += rows · panel      (in scratch memory)
//! commit the sums
//! ```

use super::runs::Columns;
use super::windows::{Gather, SLACK};
use crate::kernel::{Block, Kernel, Outcome};
use crate::kernels::blocks::epilogue::{Epilogue, Sums};
use crate::kernels::blocks::operand::{Constants, Operand};
use crate::kernels::blocks::operand_layout::grid;
use crate::kernels::blocks::plan::{Costs, Plan, Share};
use crate::kernels::blocks::scratch_epilogue::ScratchEpilogue;
use crate::kernels::blocks::shape::GroupShape;
use crate::kernels::blocks::stop_token::StopToken;
use crate::kernels::images::convolution::bound_conv::BoundConv;
use crate::kernels::product::tile::{LINE, chunk_of};
use reef_core::Result;

/// The kernel of any convolution.
///
/// # Errors
///
/// `Invalid` if shapes contradict each other or a storage is too small; `Unsupported` for outputs
/// in planes.
pub(in crate::kernels) fn build(conv: &BoundConv<'_>) -> Result<(Kernel, u32)> {
    build_finished("conv2d", conv, None)
}

/// Like [`build`], with a formula behind the sums if there is one.
pub(in crate::kernels) fn build_finished(
    name: &'static str,
    conv: &BoundConv<'_>,
    finish: Option<Box<dyn ScratchEpilogue>>,
) -> Result<(Kernel, u32)> {
    let conv = Conv::new(conv, finish)?;
    let blocks = grid(conv.plan.blocks())?;
    Ok((Kernel::new(name, move |block, _| conv.run(block)), blocks))
}

/// A convolution, ready to run.
#[derive(Debug)]
pub(super) struct Conv {
    pub(super) input: Operand,
    pub(super) constants: Constants,
    pub(super) epilogue: Epilogue,
    pub(super) shape: GroupShape,
    /// Input channels of a group.
    pub(super) group_inputs: usize,
    plan: Plan,
    /// Units of the device, which take turns at blocks.
    units: usize,
    pub(super) gather: Gather,
    chunks: Vec<Columns>,
    /// Floats from a gathered row to the next; 0 if the input's pixels are the rows.
    pub(super) gathered_pitch: usize,
    /// Pixels as they lie are copied, because of their pitch alone.
    pub(super) copies_pixels: bool,
    /// Formula behind the sums before they are committed.
    finish: Option<Box<dyn ScratchEpilogue>>,
}

/// A share's memory: sums, then gathered rows, then what the finish wants.
pub(super) struct Scratch {
    pub(super) sums: *mut f32,
    pub(super) sums_pitch: usize,
    pub(super) gathered: *mut f32,
    finish: *mut f32,
}

impl Conv {
    fn new(conv: &BoundConv<'_>, finish: Option<Box<dyn ScratchEpilogue>>) -> Result<Self> {
        conv.check()?;
        let (input, epilogue, op) = (conv.input()?, conv.epilogue()?, conv.op);
        let (pixels, shape) = (epilogue.output.pixels(), GroupShape::of(op));
        let gather = Gather::new(op);
        let depth = chunk_of(shape.depth);
        let chunks = gather.chunks(op, depth);
        let (costs, gathered_pitch) =
            if conv.reads_in_place() { (&Costs::READ, 0) } else { (&Costs::GATHER, depth + LINE) };
        Ok(Self {
            plan: Plan::new(pixels, shape, op.groups, costs, conv.units),
            units: conv.units as usize,
            gathered_pitch,
            copies_pixels: gathered_pitch > 0 && conv.sees_pixels(),
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
        let after = self.plan.share(self.next_index(block));
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
        if !self.finish(&share, &scratch, stop) || stop.is_set() {
            return Outcome::Stopped;
        }
        self.commit(&share, &scratch);
        Outcome::Done
    }

    /// The block that the unit of `block` probably takes next: units take turns, some from the
    /// front and some from the back.
    fn next_index(&self, block: &Block<'_>) -> usize {
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
        // SAFETY: both are parts of scratch memory of these lengths, which only we use, and don't
        // overlap.
        let (sums, own) = unsafe {
            (
                std::slice::from_raw_parts_mut(scratch.sums, len),
                std::slice::from_raw_parts_mut(scratch.finish, finish.scratch()),
            )
        };
        finish.rows(sums, scratch.sums_pitch, share, own, stop)
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
        // SAFETY: the block has borrowed output and residual, and shares of blocks are disjoint.
        unsafe { self.epilogue.commit(&sums) };
    }
}
