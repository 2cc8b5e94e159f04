//! One tile for several convolutions that are one launch.
//!
//! All blocks share the device, so the model (`tile`) counts them together, and the time of the
//! convolution that takes longest is that of all. Parts of all sums have the same upper bound of
//! slabs. The tile and the bound are those with the least time.

use super::slabs::Shape;
use super::tile::{MAX_PARTIALS, Plan, SPLITS, Tile, units};
use crate::hal::facts::Facts;

/// Maximum of tiles of one launch whose sums are split: each has a count in scratch memory.
pub(in crate::operators) const MAX_SPLIT_TILES: usize = 1024;

/// Plans of convolutions that have the same tile.
#[derive(Debug)]
pub(in crate::operators) struct CommonTile {
    /// One for each convolution.
    pub(in crate::operators) plans: Vec<Plan>,
    /// Microseconds of the launch.
    pub(in crate::operators) micros: f64,
}

impl CommonTile {
    /// The fastest for a device, as far as the model knows.
    pub(in crate::operators) fn new(
        tiles: &[Tile],
        shapes: &[Shape],
        facts: &Facts,
    ) -> Option<Self> {
        let fitting = tiles.iter().filter(|tile| tile.has_room(facts));
        let all = fitting.flat_map(|&tile| {
            let most = most_slabs(tile, shapes).into_iter();
            most.filter_map(move |most| Self::of(tile, most, shapes, units(facts)))
        });
        all.min_by(|a, b| a.micros.total_cmp(&b.micros))
    }

    /// Parts of sums of at most this number of slabs; `None` if there would be too many.
    fn of(tile: Tile, most: usize, shapes: &[Shape], units: usize) -> Option<Self> {
        let fits =
            |plan: &Plan, shape: &Shape| plan.slabs(shape) <= most && plan.fits(shape, units);
        let plan = |shape: &Shape| {
            let plans = SPLITS.map(|splits| Plan { tile, splits });
            plans.into_iter().find(|plan| fits(plan, shape))
        };
        let plans: Vec<Plan> = shapes.iter().map(plan).collect::<Option<_>>()?;
        let each = || plans.iter().zip(shapes);
        let split = each().filter(|(plan, _)| plan.splits > 1);
        let split: usize = split.map(|(plan, shape)| plan.tile.count(shape)).sum();
        let partials: usize = each().map(|(plan, shape)| shape.partials(plan.splits)).sum();
        if split > MAX_SPLIT_TILES || partials > MAX_PARTIALS {
            return None;
        }
        let blocks: usize = each().map(|(plan, shape)| plan.blocks(shape)).sum();
        let micros = each().map(|(plan, shape)| plan.micros_among(blocks, shape, units));
        let micros = micros.fold(0.0, f64::max);
        Some(Self { plans, micros })
    }
}

/// All numbers of slabs that parts of these sums may have.
fn most_slabs(tile: Tile, shapes: &[Shape]) -> Vec<usize> {
    let plans = SPLITS.map(|splits| Plan { tile, splits });
    let mut all: Vec<usize> =
        plans.iter().flat_map(|plan| shapes.iter().map(move |shape| plan.slabs(shape))).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::calls::Vendor;
    use crate::hal::fake::Fake;
    use crate::operators::tiles::tile::WARPS;

    /// An H200.
    fn facts() -> Facts {
        Facts { units: 132, shared_per_block: 227 << 10, ..Fake::default().facts().clone() }
    }

    fn common(shapes: &[Shape]) -> CommonTile {
        CommonTile::new(&WARPS, shapes, &facts()).unwrap()
    }

    fn splits(common: &CommonTile) -> Vec<usize> {
        common.plans.iter().map(|plan| plan.splits).collect()
    }

    /// Microseconds of each of them by itself, in all.
    fn one_by_one(shapes: &[Shape]) -> f64 {
        let of = |shape: &Shape| Plan::new(&WARPS, shape, &facts()).micros(shape, &facts());
        shapes.iter().map(of).sum()
    }

    #[test]
    fn small_convolutions_take_together_as_long_as_one() {
        let shapes = [192, 128, 128].map(|outputs| Shape { pixels: 289, outputs, slabs: 6 });
        let common = common(&shapes);
        assert!(common.plans.iter().all(|plan| plan.tile == common.plans[0].tile));
        assert!(common.micros < 0.6 * one_by_one(&shapes), "{common:?}");
    }

    #[test]
    fn long_sum_next_to_short_ones_is_split() {
        let shape = |outputs, slabs| Shape { pixels: 64, outputs, slabs };
        let common = common(&[shape(384, 9), shape(384, 9), shape(384, 32)]);
        let splits = splits(&common);
        assert!(splits[2] > splits[0] && splits[0] == splits[1], "{splits:?}");
        let slabs = common.plans[2].slabs(&shape(384, 32));
        assert!(slabs <= 16, "{slabs}");
    }

    /// Split in two, by the smallest tile, they would have 1920.
    #[test]
    fn counts_of_all_split_tiles_have_room() {
        let shapes = [Shape { pixels: 32 * 40, outputs: 32 * 6, slabs: 200 }; 8];
        let common = common(&shapes);
        let split = common.plans.iter().zip(&shapes).filter(|(plan, _)| plan.splits > 1);
        let tiles: usize = split.map(|(plan, shape)| plan.tile.count(shape)).sum();
        assert!(tiles <= MAX_SPLIT_TILES, "{tiles}");
    }

    #[test]
    fn device_without_room_for_a_tile_has_none() {
        let small = Facts { shared_per_block: 1 << 10, ..facts() };
        let shapes = [Shape { pixels: 49, outputs: 64, slabs: 4 }; 2];
        assert!(CommonTile::new(&WARPS, &shapes, &small).is_none());
    }
}
