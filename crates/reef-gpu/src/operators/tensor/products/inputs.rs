//! Storage of the inputs of products, and the tiles for it.

use crate::operators::tiles::tile::{Tile, WARPS};
use reef_op::tensor::Element as Stored;

/// Tiles of rows and columns: `PRODUCTS` in kernels/tensor.cu. Slabs of singles take longer than
/// those of convolutions, which have half the bytes: fitted to 400 timings on one H200
/// (2026-11-23), what the model picks for 13 products of networks takes 3.5 % longer in all than
/// the best of each.
const TILES: [Tile; 2] = [WARPS[0].that_takes(0.2, 0.15), WARPS[2].that_takes(0.8, 0.3)];
/// Tiles of pairs of halves, of which a slab has twice as many terms and nothing is rounded:
/// ViT-B/16's and BERT's products, each cut in four ways on one H200 (2026-11-23).
const PAIR_TILES: [Tile; 2] = [WARPS[0].that_takes(0.2, 0.15), WARPS[2].that_takes(0.45, 0.25)];
/// Tiles of pairs on warpgroups: `PRODUCT_GROUPS` in kernels/hopper.cu. Fitted to 155 ways of
/// ViT-B/16's and BERT's products in chains of graphs on one H200 (2026-11-27-h200-products of
/// docs/research/results.md): what the model picks takes 0.6 % longer in all than the best of 27
/// tiles.
pub(super) const PAIRS_ON_GROUPS: [Tile; 3] = [
    Tile::of_product_groups([32, 64], 8, [0.12, 0.12, 1.07]),
    Tile::of_product_groups([32, 128], 5, [0.10, 0.17, 2.01]),
    Tile::of_product_groups([40, 128], 5, [0.14, 0.18, 1.92]),
];

/// Storage of inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inputs {
    Singles,
    /// Columns were rounded as tensor cores take them.
    Rounded,
    /// Columns alone are halves.
    Narrow,
    /// Both are halves, which tensor cores take by pairs.
    Pairs,
}

impl Inputs {
    /// `None` if there is no kernel for them.
    pub(super) fn of([rows, columns]: [Stored; 2], is_packed: bool, family: &str) -> Option<Self> {
        match [rows, columns] {
            [Stored::F32, Stored::F32] if is_packed => Some(Self::Rounded),
            [Stored::F32, Stored::F32] => Some(Self::Singles),
            [Stored::F32, Stored::F16] if is_packed && family == "f16" => Some(Self::Narrow),
            [Stored::F16, Stored::F16] if is_packed && family == "f16" => Some(Self::Pairs),
            _ => None,
        }
    }
}

/// Tiles with what they take. `on_groups`: the device has those of warpgroups.
pub(super) fn tiles(inputs: Inputs, on_groups: bool) -> &'static [Tile] {
    match inputs {
        Inputs::Pairs if on_groups => &PAIRS_ON_GROUPS,
        Inputs::Pairs => &PAIR_TILES,
        _ => &TILES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::calls::Vendor;
    use crate::hal::facts::Facts;
    use crate::hal::fake::Fake;
    use crate::operators::tiles::slabs::Shape;
    use crate::operators::tiles::tile::Plan;

    /// Microseconds that were measured of these plans, and of the fastest of these tiles (H200,
    /// 2026-11-27-h200-products of docs/research/results.md): of ViT-B/16 and BERT, as rows,
    /// columns, slabs.
    #[test]
    fn plans_on_groups_are_the_fastest_measured() {
        let facts =
            Facts { units: 132, shared_per_block: 227 << 10, ..Fake::default().facts().clone() };
        let rows = [
            ([197, 2304, 6], "40x128 /1", [5.5, 5.5]),
            ([197, 768, 6], "32x64 /2", [4.4, 4.4]),
            ([197, 3072, 6], "40x128 /1", [6.7, 6.7]),
            ([197, 768, 24], "40x128 /4", [7.7, 7.6]),
            ([128, 2304, 6], "32x128 /1", [5.0, 5.0]),
            ([128, 768, 6], "32x64 /2", [3.8, 3.8]),
            ([128, 3072, 6], "32x128 /1", [5.9, 5.9]),
            ([128, 768, 24], "32x64 /4", [6.0, 6.0]),
        ];
        for ([pixels, outputs, slabs], want, [chosen, fastest]) in rows {
            let shape = Shape { pixels, outputs, slabs };
            let Plan { tile, splits } = Plan::new(&PAIRS_ON_GROUPS, &shape, &facts);
            let got = format!("{}x{} /{splits}", tile.pixels, tile.outputs);
            assert_eq!(got, want, "{chosen} and {fastest} us");
        }
    }

    /// Names in the source are those that launches ask for.
    #[test]
    fn tiles_on_groups_are_those_of_their_source() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/hopper.cu");
        let Ok(source) = std::fs::read_to_string(path) else {
            return reef_conformance::skip(&format!("no {path}"));
        };
        let lines = source.lines().filter(|line| line.starts_with("PRODUCT_GROUPS("));
        let tiles = lines.map(|line| line.rsplit_once(", ").expect("slabs not under way").0);
        let tile = |Tile { pixels, outputs, stages, .. }: &Tile| {
            format!("PRODUCT_GROUPS({pixels}, {outputs}, {stages}")
        };
        let want: Vec<_> = PAIRS_ON_GROUPS.iter().map(tile).collect();
        assert_eq!(tiles.collect::<Vec<_>>(), want);
        assert!(source.contains("    PRODUCT(products_groups_f16_##bm"));
    }
}
