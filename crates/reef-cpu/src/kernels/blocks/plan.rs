//! Division of a layer into blocks.
//!
//! The model of costs is crude, and only has to rank shapes: few blocks leave units idle, many read
//! inputs and weights again and again, large ones take long to commit.

use super::shape::GroupShape;
use crate::kernels::product::tile::{COLUMNS, ROWS};
#[cfg(target_arch = "x86_64")]
use reef_op::Tensor;
use std::ops::Range;

/// Rows, columns and groups of blocks over a layer's outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kernels) struct Plan {
    /// Pixels of the whole layer.
    pub pixels: usize,
    /// Outputs per group.
    pub outputs: usize,
    /// Pixels of a block.
    pub block_pixels: usize,
    /// Outputs of a block, whole panels.
    pub block_outputs: usize,
    /// Groups.
    pub groups: usize,
}

/// Part of a layer that one block computes.
#[derive(Debug, Clone)]
pub(in crate::kernels) struct Share {
    pub group: usize,
    pub pixels: Range<usize>,
    /// Within the group.
    pub outputs: Range<usize>,
}

/// Floats that a block commits in about five microseconds. Larger blocks wait for outer caches when
/// they commit.
const MAX_SUMS: usize = 16 * 1024;
/// Nanoseconds of a block's start, apart from its work.
const START: f64 = 1000.0;
/// Multiply-adds per nanosecond.
const SPEED: f64 = 100.0;
/// Nanoseconds per weight that comes from outer caches.
const WEIGHT: f64 = 0.05;

/// Costs of a product's rows and sums, on top of its multiply-adds.
#[derive(Debug, Clone, Copy)]
pub(in crate::kernels) struct Costs {
    /// Nanoseconds per input: a term of a row.
    pub input: f64,
    /// Nanoseconds per sum that is committed.
    pub sum: f64,
    /// Inputs of a block at most.
    pub inputs: usize,
    /// Sums of a block at most.
    pub sums: usize,
}

impl Costs {
    /// Inputs are read where they lie.
    pub(in crate::kernels) const READ: Self =
        Self { input: 0.05, sum: 0.2, inputs: usize::MAX, sums: MAX_SUMS };
    /// Windows are gathered.
    pub(in crate::kernels) const GATHER: Self = Self { input: 0.2, ..Self::READ };
}

/// Inputs that an elementwise block looks at: about 30 microseconds' worth.
const ELEMENTS: usize = 256 * 1024;
/// Nanoseconds that a block should take at most.
const MAX_NANOS: f64 = 200_000.0;

/// Units up to which plans are the same.
const FEW: u32 = 8;

/// Numbers of units for which plans of a device of `units` are to be good. One plan suits 3 to 8
/// units, whose blocks also run next to others on some of them, and one those with fewer; more
/// would stand idle while it runs.
fn widths(units: u32) -> Vec<usize> {
    match units {
        0..=2 => vec![2, 4],
        3..=FEW => vec![2, 4, 8],
        _ => vec![units as usize],
    }
}

impl Plan {
    /// The cheapest plan for products of `shape` over `pixels` pixels, on a device of `units`
    /// units.
    pub(in crate::kernels) fn new(
        pixels: usize,
        shape: GroupShape,
        groups: usize,
        costs: &Costs,
        units: u32,
    ) -> Self {
        let tiles = pixels.div_ceil(ROWS);
        let panels = shape.outputs.div_ceil(COLUMNS);
        let plans = (1..=tiles.min(costs.sums / COLUMNS / ROWS)).flat_map(|rows| {
            (1..=panels).map(move |columns| Self {
                pixels,
                outputs: shape.outputs,
                block_pixels: rows * ROWS,
                block_outputs: columns * COLUMNS,
                groups,
            })
        });
        let widths = widths(units);
        let cost = |plan: &Self| plan.cost(shape.depth, costs, &widths);
        let is_small = |plan: &Self| {
            plan.block_pixels * plan.block_outputs <= costs.sums
                && (plan.block_pixels == ROWS || plan.block_pixels * shape.depth <= costs.inputs)
        };
        let allowed = plans.filter(is_small);
        allowed.min_by(|a, b| cost(a).total_cmp(&cost(b))).expect("one tile is allowed")
    }

    /// A plan for work along the channels that looks at `window` inputs per output.
    pub(in crate::kernels) fn elementwise(
        pixels: usize,
        channels: usize,
        window: usize,
        units: u32,
    ) -> Self {
        Self::rows(pixels, channels, (ELEMENTS / window).clamp(1, MAX_SUMS / 2), units)
    }

    /// A plan with blocks of at most about `most` outputs, and one for each unit, but eight at
    /// least, if there is enough.
    pub(in crate::kernels) fn rows(
        pixels: usize,
        channels: usize,
        most: usize,
        units: u32,
    ) -> Self {
        let blocks = units.max(FEW) as usize;
        let outputs = most.min((pixels * channels).div_ceil(blocks)).max(1);
        let block_outputs = channels.min(outputs.next_multiple_of(64));
        let block_pixels = (outputs / block_outputs).clamp(1, pixels);
        Self { pixels, outputs: channels, block_pixels, block_outputs, groups: 1 }
    }

    /// A plan with blocks of whole lines of `output`, each of which has `padded` sums for an output
    /// channel, and of whole panels; `None` if one line of a panel is too much.
    #[cfg(target_arch = "x86_64")]
    pub(in crate::kernels) fn lines(output: &Tensor, padded: usize, units: u32) -> Option<Self> {
        let (width, lines) = (output.width, output.batch * output.height);
        let panels =
            (MAX_SUMS / COLUMNS).checked_div(padded)?.min(output.channels.div_ceil(COLUMNS));
        let block_outputs = panels * COLUMNS;
        let most = MAX_SUMS.checked_div(padded * block_outputs)?;
        let count = most.min(lines.div_ceil(units.max(FEW) as usize)).max(1);
        let (pixels, outputs) = (lines * width, output.channels);
        Some(Self { pixels, outputs, block_pixels: count * width, block_outputs, groups: 1 })
    }

    fn grid(&self) -> [usize; 2] {
        [self.pixels.div_ceil(self.block_pixels), self.outputs.div_ceil(self.block_outputs)]
    }

    /// Blocks.
    pub(in crate::kernels) fn blocks(&self) -> usize {
        self.grid().iter().product::<usize>() * self.groups
    }

    /// Outputs of the largest block: scratch memory of this size never grows.
    pub(in crate::kernels) fn sums(&self) -> usize {
        self.block_pixels * self.block_outputs
    }

    /// Nanoseconds, summed over devices of `widths` units.
    fn cost(&self, depth: usize, costs: &Costs, widths: &[usize]) -> f64 {
        let rows = self.block_pixels.min(self.pixels) as f64;
        let columns = self.block_outputs.min(self.outputs.next_multiple_of(COLUMNS)) as f64;
        let depth = depth as f64;
        let block = START
            + rows * columns * (depth / SPEED + costs.sum)
            + depth * (columns * WEIGHT + rows * costs.input)
            + if rows * columns * depth / SPEED > MAX_NANOS { MAX_NANOS } else { 0.0 };
        let rounds = |units: usize| self.blocks().div_ceil(units) as f64 * units as f64;
        block * widths.iter().map(|&units| rounds(units)).sum::<f64>()
    }

    /// Part of block `index`. Neighbours share weights.
    pub(in crate::kernels) fn share(&self, index: usize) -> Share {
        let [rows, columns] = self.grid();
        let (row, column) = (index % rows, index / rows % columns);
        let cut = |i: usize, size: usize, all: usize| i * size..all.min((i + 1) * size);
        Share {
            group: index / (rows * columns),
            pixels: cut(row, self.block_pixels, self.pixels),
            outputs: cut(column, self.block_outputs, self.outputs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Layers of ResNet-50, with the units that have most to do on a device of 16: its time by the
    /// model, with the plan for `units`.
    fn nanos_on_16(units: u32) -> f64 {
        let layers =
            [(3136, 576, 64), (784, 1152, 128), (196, 2304, 256), (49, 4608, 512), (1, 2048, 1000)];
        let nanos = layers.map(|(pixels, depth, outputs)| {
            Plan::new(pixels, GroupShape { outputs, depth }, 1, &Costs::GATHER, units).cost(
                depth,
                &Costs::GATHER,
                &[16],
            )
        });
        nanos.iter().sum::<f64>() / 16.0
    }

    #[test]
    fn a_device_of_16_units_has_work_for_all() {
        let [few, many] = [8, 16].map(nanos_on_16);
        assert!(many < 0.75 * few, "{many} instead of {few} ns");
    }

    #[test]
    fn plans_for_few_units_are_the_same() {
        let shape = GroupShape { outputs: 256, depth: 1024 };
        let plans = [3, 4, 8].map(|units| Plan::new(196, shape, 1, &Costs::READ, units));
        assert!(plans.iter().all(|plan| plan == &plans[0]), "{plans:?}");
        assert_eq!(Plan::rows(128, 64, usize::MAX, 2).blocks(), 8);
        assert_eq!(Plan::rows(128, 64, usize::MAX, 16).blocks(), 16);
    }
}
