//! Choice of the tile that a convolution is cut into, and of the parts of its sums.
//!
//! At batch 1 a convolution takes some microseconds, most of them waiting for memory, so small
//! tiles win: enough blocks matter more than reading less. A model of what blocks wait for picks
//! the tile and the splits. Fitted to 11,028 timings on one H200 (2026-11-21), what it picks for
//! the six networks takes 0.6 % (TF32) and 0.2 % (fp16) longer in all than the best of each, so
//! nothing is measured when a network is loaded, unless a device is asked to (`tune.rs`).
//!
//! Tiles of warpgroups were fitted to the 45 ways that are among the five fastest of a layer of
//! VGG-19, each launch in a chain of a graph with weights from memory (2026-11-27). In such a
//! chain tiles of warps take longer than the older timings say: [`NEXT_TO_GROUPS`].

use crate::hal::facts::Facts;
use crate::operators::tiles::slabs::{SLAB, Shape};

/// Instructions that make a tile's sums, and the source of its kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::operators) enum Body {
    /// kernels/network.cu.
    Network,
    /// kernels/quantized.cu.
    Quantized,
    /// Warpgroups: convolutions of kernels/hopper.cu.
    Groups,
    /// Warpgroups: products of kernels/hopper.cu.
    ProductGroups,
}

impl Body {
    /// First word of the kernels' names.
    pub(in crate::operators) fn prefix(self) -> &'static str {
        match self {
            Self::Network => "conv",
            Self::Quantized => "quantized",
            Self::Groups => "groups",
            Self::ProductGroups => "product_groups",
        }
    }

    /// Bytes of a slab: `SLAB` in kernels/mma.h, and `REEF_SLAB` in kernels/hopper.cu.
    pub(in crate::operators) fn slab(self) -> usize {
        match self {
            Self::Network | Self::Quantized => SLAB,
            Self::Groups | Self::ProductGroups => SLAB / 2,
        }
    }

    /// Slabs of a sum that packed weights have this number of slabs for.
    pub(in crate::operators) fn slabs(self, packed: usize) -> usize {
        packed * (SLAB / self.slab())
    }

    /// Slabs' worth of time before the first one and after the last.
    fn slabs_around(self) -> f64 {
        match self {
            Self::Network | Self::Quantized => 1.3,
            Self::Groups => 3.0,
            Self::ProductGroups => 5.3,
        }
    }

    /// Microseconds of a slab: blocks of warps come in whole rounds, those of products wait for
    /// memory that all share.
    fn micros_of_slab(self, [latency, work]: [f64; 2], blocks: usize, units: usize) -> f64 {
        let rounds = blocks as f64 / units as f64;
        match self {
            Self::Network | Self::Quantized => latency.max(work * rounds.ceil()),
            Self::Groups => latency.max(work * rounds.max(1.0)),
            Self::ProductGroups => latency + work * rounds,
        }
    }

    /// Microseconds of a split: in any case, and for each part of a thousand sums.
    fn split(self) -> [f64; 2] {
        match self {
            Self::Network | Self::Quantized | Self::Groups => [0.66, 0.1],
            Self::ProductGroups => [0.11, 0.05],
        }
    }
}

/// A kernel's tile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::operators) struct Tile {
    pub(in crate::operators) pixels: usize,
    pub(in crate::operators) outputs: usize,
    pub(in crate::operators) threads: u32,
    pub(in crate::operators) body: Body,
    /// Slabs under way.
    pub(in crate::operators) stages: usize,
    /// Warps that share one place of the tile.
    shares: usize,
    /// Microseconds from one slab to the next if a unit has one block.
    latency: f64,
    /// Microseconds of a unit for each slab of each block.
    work: f64,
    /// Factor of what these give, and microseconds of a launch in any case.
    whole: [f64; 2],
}

impl Tile {
    const fn new(
        [pixels, outputs]: [usize; 2],
        threads: u32,
        [stages, shares]: [usize; 2],
        [latency, work]: [f64; 2],
    ) -> Self {
        let (body, whole) = (Body::Network, [1.0, 0.0]);
        Self { pixels, outputs, threads, body, stages, shares, latency, work, whole }
    }

    /// Two threads for each pixel.
    const fn of_groups(
        [pixels, outputs]: [usize; 2],
        stages: usize,
        [latency, work, fixed]: [f64; 3],
    ) -> Self {
        let (body, threads) = (Body::Groups, 2 * pixels as u32);
        let (shares, whole) = (1, [1.0, fixed]);
        Self { pixels, outputs, threads, body, stages, shares, latency, work, whole }
    }

    /// Of products of halves: two threads for each column.
    pub(in crate::operators) const fn of_product_groups(
        [pixels, outputs]: [usize; 2],
        stages: usize,
        [latency, work, fixed]: [f64; 3],
    ) -> Self {
        let (body, threads) = (Body::ProductGroups, 2 * outputs as u32);
        let (shares, whole) = (1, [1.0, fixed]);
        Self { pixels, outputs, threads, body, stages, shares, latency, work, whole }
    }

    /// The tile of numbers of 8 bits.
    const fn quantized(self) -> Self {
        Self { body: Body::Quantized, ..self }
    }

    /// The tile with times that compare with those of tiles of warpgroups.
    const fn next_to_groups(self) -> Self {
        Self { whole: NEXT_TO_GROUPS, ..self }
    }

    /// The tile with other times: see `latency` and `work`.
    pub(in crate::operators) const fn that_takes(self, latency: f64, work: f64) -> Self {
        Self { latency, work, ..self }
    }

    /// Bytes of shared memory of one block.
    pub(in crate::operators) fn shared(&self) -> u32 {
        let slabs = self.stages * (self.pixels + self.outputs) * self.body.slab();
        let sums = self.shares * self.pixels * (self.outputs + 8) * size_of::<f32>();
        slabs.max(sums) as u32
    }

    /// Returns whether a block of a device has the shared memory for it.
    pub(super) fn has_room(&self, facts: &Facts) -> bool {
        self.shared() + self.guard() <= facts.shared_per_block
    }

    /// Returns whether both add the terms of a sum in one order, so that its bits are the same.
    pub(super) fn adds_as(&self, other: &Self) -> bool {
        self.body == other.body && self.shares == other.shares
    }

    fn guard(&self) -> u32 {
        match self.body {
            Body::Network | Body::Quantized => GUARD,
            Body::Groups | Body::ProductGroups => GUARD_OF_GROUPS,
        }
    }

    pub(super) fn count(&self, shape: &Shape) -> usize {
        shape.pixels.div_ceil(self.pixels) * shape.outputs.div_ceil(self.outputs)
    }
}

/// Tiles on tensor cores; `CONV_WARPS` in kernels/network.cu.
pub(in crate::operators) const WARPS: [Tile; 3] = [
    Tile::new([32, 32], 128, [4, 4], [0.18, 0.12]),
    Tile::new([64, 32], 256, [4, 4], [0.25, 0.23]),
    Tile::new([64, 64], 256, [3, 2], [0.49, 0.34]),
];
/// With integers of 8 bits; `CONV_INT8` in kernels/quantized.cu. A slab takes as long as of halves,
/// and has more terms.
pub(in crate::operators) const INT8: [Tile; 3] =
    [WARPS[0].quantized(), WARPS[1].quantized(), WARPS[2].quantized()];
/// With floats of 8 bits, which are multiplied as halves; `CONV_FP8` there.
pub(in crate::operators) const FP8: [Tile; 2] =
    [WARPS[0].quantized().that_takes(0.55, 0.45), WARPS[2].quantized().that_takes(1.2, 0.9)];
/// [`Tile::whole`] of tiles of warps next to those of warpgroups.
const NEXT_TO_GROUPS: [f64; 2] = [1.4, 1.0];
/// On tensor cores where a device has kernels/hopper.cu as well; `CONV_GROUPS` there.
pub(in crate::operators) const WITH_GROUPS: [Tile; 6] = [
    WARPS[0].next_to_groups(),
    WARPS[1].next_to_groups(),
    WARPS[2].next_to_groups(),
    Tile::of_groups([64, 64], 6, [0.17, 0.19, 2.2]),
    Tile::of_groups([128, 64], 4, [0.25, 0.33, 2.2]),
    Tile::of_groups([128, 128], 6, [0.30, 0.31, 4.3]),
];
/// Inputs of 8 bits on warpgroups; `CONV_QUANTIZED` in kernels/hopper.cu.
const QUANTIZED_GROUPS: [Tile; 2] = [WITH_GROUPS[3], WITH_GROUPS[5]];
pub(in crate::operators) const INT8_WITH_GROUPS: [Tile; 5] = [
    INT8[0].next_to_groups(),
    INT8[1].next_to_groups(),
    INT8[2].next_to_groups(),
    QUANTIZED_GROUPS[0],
    QUANTIZED_GROUPS[1],
];
pub(in crate::operators) const FP8_WITH_GROUPS: [Tile; 4] =
    [FP8[0].next_to_groups(), FP8[1].next_to_groups(), QUANTIZED_GROUPS[0], QUANTIZED_GROUPS[1]];
/// Without; `CONV_THREADS` in kernels/network.cu. Their costs are guesses.
pub(in crate::operators) const THREADS: [Tile; 2] =
    [Tile::new([32, 32], 256, [2, 1], [0.6, 0.4]), Tile::new([64, 64], 256, [2, 1], [1.5, 1.2])];
/// Without, where waves have 64 lanes and a unit 64 KiB of shared memory: AMD's. Guesses as well.
pub(in crate::operators) const WAVES: [Tile; 2] =
    [Tile::new([32, 32], 256, [2, 1], [0.6, 0.4]), Tile::new([64, 32], 256, [2, 1], [1.0, 0.8])];

/// Bytes of shared memory that a block needs in addition to its tile: the guard's words, and where
/// warpgroups read, all up to the next 1024 bytes.
const GUARD: u32 = 128;
const GUARD_OF_GROUPS: u32 = 1024;
const SPLITS: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];
/// Maximum of blocks of a unit if sums are split.
const MAX_SPLIT_BLOCKS: usize = 4;
/// Maximum of bytes of partial sums.
pub(super) const MAX_PARTIALS: usize = 32 << 20;

/// Tile and parts of sums that a convolution is cut into.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::operators) struct Plan {
    pub(in crate::operators) tile: Tile,
    pub(in crate::operators) splits: usize,
}

impl Plan {
    /// The fastest for a device, as far as the model knows. The first tile must fit any device.
    pub(in crate::operators) fn new(tiles: &[Tile], shape: &Shape, facts: &Facts) -> Self {
        let micros = |plan: &Self| plan.micros(shape, facts);
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
        let has_room = |tile: &&Tile| tile.has_room(facts);
        let plans = |&tile: &Tile| SPLITS.map(|splits| Self { tile, splits });
        let fits = |plan: &Self| plan.fits(shape, units(facts));
        tiles.iter().filter(has_room).flat_map(plans).filter(fits)
    }

    fn fits(&self, shape: &Shape, units: usize) -> bool {
        self.splits == 1
            || self.splits * 2 <= self.tile.body.slabs(shape.slabs)
                && self.splits * self.tile.count(shape) <= MAX_SPLIT_BLOCKS * units
                && shape.partials(self.splits) <= MAX_PARTIALS
    }

    /// Microseconds that it takes, as far as the model knows.
    pub(in crate::operators) fn micros(&self, shape: &Shape, facts: &Facts) -> f64 {
        self.micros_among(self.blocks(shape), shape, units(facts))
    }

    /// Microseconds that it takes if its launch has this number of blocks in all.
    pub(super) fn micros_among(&self, blocks: usize, shape: &Shape, units: usize) -> f64 {
        let body = self.tile.body;
        let slabs = self.slabs(shape) as f64 + body.slabs_around();
        let sums = (self.tile.pixels * self.tile.outputs) as f64 / 1024.0;
        let [once, each] = body.split();
        let split = if self.splits == 1 { 0.0 } else { once + each * self.splits as f64 * sums };
        let [factor, fixed] = self.tile.whole;
        let slab = body.micros_of_slab([self.tile.latency, self.tile.work], blocks, units);
        factor * (slabs * slab + split) + fixed
    }

    pub(in crate::operators) fn blocks(&self, shape: &Shape) -> usize {
        self.tile.count(shape) * self.splits
    }

    /// Slabs of a part of a sum.
    fn slabs(&self, shape: &Shape) -> usize {
        self.tile.body.slabs(shape.slabs).div_ceil(self.splits)
    }
}

pub(super) fn units(facts: &Facts) -> usize {
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
        for tile in &WITH_GROUPS[WARPS.len()..] {
            assert_eq!(tile.body, Body::Groups);
            assert!(tile.shared() + GUARD_OF_GROUPS <= 227 << 10, "{tile:?}");
        }
    }

    /// Microseconds that were measured of these plans, and of the fastest (H200,
    /// 2026-11-27-h200-hopper of docs/research/results.md): of VGG-19, as outputs, side, slabs.
    #[test]
    fn plans_next_to_groups_are_the_fastest_measured() {
        let rows = [
            ([64, 224, 5], "groups 128x64 /1", [15.1, 15.1]),
            ([128, 112, 9], "groups 128x128 /1", [10.7, 10.7]),
            ([256, 56, 9], "groups 64x64 /1", [7.2, 7.2]),
            ([256, 56, 18], "groups 64x64 /1", [12.3, 12.3]),
            ([512, 28, 18], "groups 64x64 /1", [9.0, 9.0]),
            ([512, 28, 36], "groups 64x64 /2", [15.1, 15.0]),
            ([512, 14, 36], "groups 64x64 /4", [8.9, 8.4]),
        ];
        for ([outputs, side, slabs], want, [chosen, fastest]) in rows {
            let shape = Shape { pixels: side * side, outputs, slabs };
            let Plan { tile, splits } = Plan::new(&WITH_GROUPS, &shape, &facts(132, 227));
            let Tile { pixels, outputs, body, .. } = tile;
            let got = format!("{} {pixels}x{outputs} /{splits}", body.prefix());
            assert_eq!(got, want, "{chosen} and {fastest} us");
        }
    }

    /// Names in the source are those that launches ask for.
    #[test]
    fn tiles_of_groups_are_those_of_their_source() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/hopper.cu");
        let Ok(source) = std::fs::read_to_string(path) else {
            return reef_conformance::skip(&format!("no {path}"));
        };
        let lines = source.lines().filter(|line| line.starts_with("CONV_GROUPS("));
        let tile = |Tile { pixels, outputs, stages, .. }: &Tile| {
            format!("CONV_GROUPS({pixels}, {outputs}, {stages})")
        };
        let want: Vec<_> = WITH_GROUPS[WARPS.len()..].iter().map(tile).collect();
        assert_eq!(lines.collect::<Vec<_>>(), want);
        assert!(source.contains(&format!("#define REEF_SLAB {}\n", Body::Groups.slab())));
        let eight =
            QUANTIZED_GROUPS.iter().map(tile).map(|line| line.replace("GROUPS", "QUANTIZED"));
        eight.for_each(|line| assert!(source.contains(&format!("\n{line}\n")), "{line}"));
        for family in ["rounded", "f16", "int8_int8", "int8_f16", "fp8_fp8", "fp8_f16"] {
            assert!(source.contains(&format!("    CONV({}_{family}_##", Body::Groups.prefix())));
        }
    }

    #[test]
    fn small_convolutions_stay_with_warps() {
        let shape = Shape { pixels: 49, outputs: 512, slabs: 4 };
        assert_eq!(Plan::new(&WITH_GROUPS, &shape, &facts(132, 227)).tile.body, Body::Network);
    }
}
