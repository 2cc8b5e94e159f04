//! One tile for several convolutions that are one launch.
//!
//! All blocks share the device, so the model (`tile`) counts them together, and the time of the
//! convolution that takes longest is that of all. Sums have the same bits as in launches of their
//! own: they keep their parts, and the tile adds as those do that they have by themselves. Of such
//! tiles it is the one with the least time.

use super::slabs::Shape;
use super::tile::{MAX_PARTIALS, Plan, Tile, units};
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
    /// The fastest for a device, as far as the model knows, for convolutions that have the plans
    /// `alone` by themselves; `None` if these add in different orders.
    pub(in crate::operators) fn new(
        tiles: &[Tile],
        alone: &[Plan],
        shapes: &[Shape],
        facts: &Facts,
    ) -> Option<Self> {
        let adds_as_all = |tile: &Tile| alone.iter().all(|plan| tile.adds_as(&plan.tile));
        let fitting = tiles.iter().filter(|tile| tile.has_room(facts) && adds_as_all(tile));
        let all = fitting.filter_map(|&tile| Self::of(tile, alone, shapes, units(facts)));
        all.min_by(|a, b| a.micros.total_cmp(&b.micros))
    }

    /// `None` if there are too many parts of sums.
    fn of(tile: Tile, alone: &[Plan], shapes: &[Shape], units: usize) -> Option<Self> {
        let plan = |plan: &Plan| Plan { tile, splits: plan.splits };
        let plans: Vec<Plan> = alone.iter().map(plan).collect();
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

    /// Plans of each by itself.
    fn plans(shapes: &[Shape]) -> Vec<Plan> {
        shapes.iter().map(|shape| Plan::new(&WARPS, shape, &facts())).collect()
    }

    fn common(shapes: &[Shape]) -> Option<CommonTile> {
        CommonTile::new(&WARPS, &plans(shapes), shapes, &facts())
    }

    #[test]
    fn small_convolutions_take_together_as_long_as_one() {
        let shapes = [192, 128, 128].map(|outputs| Shape { pixels: 289, outputs, slabs: 6 });
        let common = common(&shapes).unwrap();
        assert!(common.plans.iter().all(|plan| plan.tile == common.plans[0].tile));
        let each = plans(&shapes).into_iter().zip(&shapes);
        let one_by_one: f64 = each.map(|(plan, shape)| plan.micros(shape, &facts())).sum();
        assert!(common.micros < 0.6 * one_by_one, "{common:?}");
    }

    /// As of a branch of Inception next to others.
    #[test]
    fn sums_keep_the_parts_that_they_have_by_themselves() {
        let shape = |outputs, slabs| Shape { pixels: 64, outputs, slabs };
        let shapes = [shape(384, 9), shape(384, 9), shape(384, 32), shape(192, 10)];
        let (shared, alone) = (common(&shapes).unwrap().plans, plans(&shapes));
        let splits = |plans: &[Plan]| plans.iter().map(|plan| plan.splits).collect::<Vec<_>>();
        assert_eq!(splits(&shared), splits(&alone));
        assert!(alone[2].splits > alone[0].splits && alone[0].splits > 1, "{alone:?}");
    }

    /// As of ResNet's first downsampling convolution and its neighbour: tiles of 64 x 64 have two
    /// warps for each place, and the others four.
    #[test]
    fn convolutions_that_add_in_different_orders_have_none() {
        let shapes = [64, 256].map(|outputs| Shape { pixels: 3136, outputs, slabs: 1 });
        let outputs: Vec<_> = plans(&shapes).iter().map(|plan| plan.tile.outputs).collect();
        assert_eq!(outputs, [32, 64]);
        assert!(common(&shapes).is_none());
    }

    /// A convolution has 24 tiles of 32 x 32, or half as many larger ones.
    #[test]
    fn counts_of_all_split_tiles_have_room() {
        let shape = Shape { pixels: 64, outputs: 384, slabs: 9 };
        assert!(common(&[shape; MAX_SPLIT_TILES / 24]).is_some());
        assert!(common(&[shape; MAX_SPLIT_TILES / 12 + 1]).is_none());
    }

    #[test]
    fn device_without_room_for_a_tile_has_none() {
        let small = Facts { shared_per_block: 1 << 10, ..facts() };
        let shapes = [Shape { pixels: 49, outputs: 64, slabs: 4 }; 2];
        assert!(CommonTile::new(&WARPS, &plans(&shapes), &shapes, &small).is_none());
    }
}
