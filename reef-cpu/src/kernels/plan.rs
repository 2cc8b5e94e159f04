//! How a layer is cut into blocks.
//!
//! The model of costs is crude, and only has to rank shapes: few blocks leave units idle, many read
//! inputs and weights again and again, large ones take long to commit.

use super::pack::GroupShape;
use super::tile::{COLUMNS, ROWS};
use std::ops::Range;

/// Rows, columns and groups of blocks over a layer's outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
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

/// What one block computes.
#[derive(Debug, Clone)]
pub(super) struct Share {
    pub group: usize,
    pub pixels: Range<usize>,
    /// Within the group.
    pub outputs: Range<usize>,
}

/// Floats that a block commits in about ten microseconds.
const MAX_SUMS: usize = 28 * 1024;
/// Nanoseconds of a block's start, apart from its work.
const START: f64 = 1000.0;
/// Multiply-adds per nanosecond.
const SPEED: f64 = 100.0;
/// Nanoseconds per weight that comes from outer caches.
const WEIGHT: f64 = 0.05;
/// Nanoseconds per input that is read where it lies.
const READ: f64 = 0.03;
/// Nanoseconds per input that is gathered.
const GATHER: f64 = 0.15;
/// Nanoseconds per output that is committed.
const SUM: f64 = 0.2;
/// Inputs that an elementwise block looks at: about 30 microseconds' worth.
const ELEMENTS: usize = 256 * 1024;
/// Nanoseconds that a block should take at most.
const MAX_NANOS: f64 = 200_000.0;

impl Plan {
    /// The cheapest plan for products of `shape` over `pixels` pixels.
    pub(super) fn new(pixels: usize, shape: GroupShape, groups: usize, gathers: bool) -> Self {
        let tiles = pixels.div_ceil(ROWS);
        let panels = shape.outputs.div_ceil(COLUMNS);
        let plans = (1..=tiles.min(MAX_SUMS / COLUMNS / ROWS)).flat_map(|rows| {
            (1..=panels).map(move |columns| Self {
                pixels,
                outputs: shape.outputs,
                block_pixels: rows * ROWS,
                block_outputs: columns * COLUMNS,
                groups,
            })
        });
        let input = if gathers { GATHER } else { READ };
        let cost = |plan: &Self| plan.cost(shape.depth, input);
        let allowed = plans.filter(|plan| plan.block_pixels * plan.block_outputs <= MAX_SUMS);
        allowed.min_by(|a, b| cost(a).total_cmp(&cost(b))).expect("one tile is allowed")
    }

    /// A plan for work along the channels that looks at `window` inputs per output.
    pub(super) fn elementwise(pixels: usize, channels: usize, window: usize) -> Self {
        Self::rows(pixels, channels, (ELEMENTS / window).clamp(1, MAX_SUMS / 2))
    }

    /// A plan with blocks of at most about `most` outputs, and eight of them if there is enough.
    pub(super) fn rows(pixels: usize, channels: usize, most: usize) -> Self {
        let outputs = most.min((pixels * channels).div_ceil(8)).max(1);
        let block_outputs = channels.min(outputs.next_multiple_of(64));
        let block_pixels = (outputs / block_outputs).clamp(1, pixels);
        Self { pixels, outputs: channels, block_pixels, block_outputs, groups: 1 }
    }

    fn grid(&self) -> [usize; 2] {
        [self.pixels.div_ceil(self.block_pixels), self.outputs.div_ceil(self.block_outputs)]
    }

    /// Blocks.
    pub(super) fn blocks(&self) -> usize {
        self.grid().iter().product::<usize>() * self.groups
    }

    /// Outputs of the largest block: scratch memory of this size never grows.
    pub(super) fn sums(&self) -> usize {
        self.block_pixels * self.block_outputs
    }

    /// Nanoseconds, summed over devices of 2, 4 and 8 units, with `input` for each of a block's.
    fn cost(&self, depth: usize, input: f64) -> f64 {
        let rows = self.block_pixels.min(self.pixels) as f64;
        let columns = self.block_outputs.min(self.outputs.next_multiple_of(COLUMNS)) as f64;
        let depth = depth as f64;
        let block = START
            + rows * columns * (depth / SPEED + SUM)
            + depth * (columns * WEIGHT + rows * input)
            + if rows * columns * depth / SPEED > MAX_NANOS { MAX_NANOS } else { 0.0 };
        let rounds = |units: usize| self.blocks().div_ceil(units) as f64 * units as f64;
        block * (rounds(2) + rounds(4) + rounds(8))
    }

    /// What block `index` computes. Neighbours share weights.
    pub(super) fn share(&self, index: usize) -> Share {
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
