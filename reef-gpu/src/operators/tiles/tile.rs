//! Choice of the tile that a convolution is cut into, and of the parts of its sums.
//!
//! At batch 1 a convolution takes some microseconds, most of them waiting for memory, so small
//! tiles win: enough blocks matter more than reading less. A model of what blocks wait for picks
//! the tile and the splits. Fitted to 11,028 timings on one H200 (2026-11-21), what it picks for
//! the six networks takes 0.6 % (TF32) and 0.2 % (fp16) longer in all than the best of each, so
//! nothing is measured when a network is loaded, unless a device is asked to (`tune.rs`).

use crate::hal::facts::Facts;
use crate::operators::tiles::slabs::{SLAB, Shape};

/// A kernel's tile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::operators) struct Tile {
    pub(in crate::operators) pixels: usize,
    pub(in crate::operators) outputs: usize,
    pub(in crate::operators) threads: u32,
    /// Slabs under way.
    stages: usize,
    /// Warps that share one place of the tile.
    shares: usize,
    /// Microseconds from one slab to the next if a unit has one block.
    latency: f64,
    /// Microseconds of a unit for each slab of each block.
    work: f64,
}

impl Tile {
    const fn new(
        [pixels, outputs]: [usize; 2],
        threads: u32,
        [stages, shares]: [usize; 2],
        [latency, work]: [f64; 2],
    ) -> Self {
        Self { pixels, outputs, threads, stages, shares, latency, work }
    }

    /// The tile with other times: see `latency` and `work`.
    pub(in crate::operators) const fn that_takes(self, latency: f64, work: f64) -> Self {
        Self { latency, work, ..self }
    }

    /// Bytes of shared memory of one block.
    pub(in crate::operators) fn shared(&self) -> u32 {
        let slabs = self.stages * (self.pixels + self.outputs) * SLAB;
        let sums = self.shares * self.pixels * (self.outputs + 8) * size_of::<f32>();
        slabs.max(sums) as u32
    }

    fn count(&self, shape: &Shape) -> usize {
        shape.pixels.div_ceil(self.pixels) * shape.outputs.div_ceil(self.outputs)
    }
}

/// Tiles on tensor cores; `CONV_WARPS` in kernels/network.cu.
pub(in crate::operators) const WARPS: [Tile; 3] = [
    Tile::new([32, 32], 128, [4, 4], [0.18, 0.12]),
    Tile::new([64, 32], 256, [4, 4], [0.25, 0.23]),
    Tile::new([64, 64], 256, [3, 2], [0.49, 0.34]),
];
/// Without; `CONV_THREADS` in kernels/network.cu. Their costs are guesses.
pub(in crate::operators) const THREADS: [Tile; 2] =
    [Tile::new([32, 32], 256, [2, 1], [0.6, 0.4]), Tile::new([64, 64], 256, [2, 1], [1.5, 1.2])];
/// Without, where waves have 64 lanes and a unit 64 KiB of shared memory: AMD's. Guesses as well.
pub(in crate::operators) const WAVES: [Tile; 2] =
    [Tile::new([32, 32], 256, [2, 1], [0.6, 0.4]), Tile::new([64, 32], 256, [2, 1], [1.0, 0.8])];

/// Bytes of shared memory that a block needs in addition to its tile: the guard's words.
const GUARD: u32 = 128;
/// Slabs' worth of time before the first one and after the last.
const AROUND: f64 = 1.3;
/// Microseconds of a split: in any case, and for each part of a thousand sums.
const SPLIT: [f64; 2] = [0.66, 0.1];
const SPLITS: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];
/// Maximum of blocks of a unit if sums are split.
const MAX_SPLIT_BLOCKS: usize = 4;
/// Maximum of bytes of partial sums.
const MAX_PARTIALS: usize = 32 << 20;

/// Tile and parts of sums that a convolution is cut into.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::operators) struct Plan {
    pub(in crate::operators) tile: Tile,
    pub(in crate::operators) splits: usize,
}

impl Plan {
    /// The fastest for a device, as far as the model knows. The first tile must fit any device.
    pub(in crate::operators) fn new(tiles: &[Tile], shape: &Shape, facts: &Facts) -> Self {
        let micros = |plan: &Self| plan.micros(shape, units(facts));
        let faster = |a: &Self, b: &Self| micros(a).total_cmp(&micros(b));
        let fastest = Self::candidates(tiles, shape, facts).min_by(faster);
        fastest.unwrap_or(Self { tile: tiles[0], splits: 1 })
    }

    /// All that a device can run and that make sense for a shape.
    pub(in crate::operators) fn candidates(
        tiles: &[Tile],
        shape: &Shape,
        facts: &Facts,
    ) -> impl Iterator<Item = Self> {
        let has_room = |tile: &&Tile| tile.shared() + GUARD <= facts.shared_per_block;
        let plans = |&tile: &Tile| SPLITS.map(|splits| Self { tile, splits });
        let fits = |plan: &Self| plan.fits(shape, units(facts));
        tiles.iter().filter(has_room).flat_map(plans).filter(fits)
    }

    fn fits(&self, shape: &Shape, units: usize) -> bool {
        self.splits == 1
            || self.splits * 2 <= shape.slabs
                && self.splits * self.tile.count(shape) <= MAX_SPLIT_BLOCKS * units
                && shape.partials(self.splits) <= MAX_PARTIALS
    }

    fn micros(&self, shape: &Shape, units: usize) -> f64 {
        let rounds = (self.tile.count(shape) * self.splits).div_ceil(units) as f64;
        let slabs = shape.slabs.div_ceil(self.splits) as f64 + AROUND;
        let sums = (self.tile.pixels * self.tile.outputs) as f64 / 1024.0;
        let split =
            if self.splits == 1 { 0.0 } else { SPLIT[0] + SPLIT[1] * self.splits as f64 * sums };
        slabs * self.tile.latency.max(self.tile.work * rounds) + split
    }
}

fn units(facts: &Facts) -> usize {
    facts.units.max(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::calls::Vendor;
    use crate::hal::fake::Fake;

    /// Facts of a device with this many units and KiB of shared memory for a block.
    fn facts(units: u32, shared: u32) -> Facts {
        Facts { units, shared_per_block: shared << 10, ..Fake::default().facts().clone() }
    }

    #[test]
    fn late_layers_are_split_and_early_ones_are_not() {
        let splits = |pixels, outputs, slabs| {
            Plan::new(&WARPS, &Shape { pixels, outputs, slabs }, &facts(132, 227)).splits
        };
        assert_eq!(splits(3136, 64, 9), 1, "56x56");
        assert!(splits(49, 512, 72) >= 4, "7x7");
    }

    #[test]
    fn tiles_that_leave_no_room_for_the_guard_are_not_chosen() {
        let shape = Shape { pixels: 112 * 112, outputs: 64, slabs: 9 };
        let tile = |kib| Plan::new(&THREADS, &shape, &facts(60, kib)).tile;
        assert_eq!(tile(96).pixels, 64);
        assert_eq!(tile(64).pixels, 32, "the larger one takes all 64 KiB");
    }

    #[test]
    fn blocks_fit_the_shared_memory_of_any_device() {
        for tile in WARPS.iter().chain(&THREADS).chain(&WAVES) {
            assert!(tile.shared() <= 96 << 10, "{tile:?}");
        }
    }
}
