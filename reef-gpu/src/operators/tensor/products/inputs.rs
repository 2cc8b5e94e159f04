//! Storage of the inputs of products, and the tiles for it.

use crate::operators::tiles::tile::{Tile, WARPS};
use reef_core::tensor::Element as Stored;

/// Tiles of rows and columns: `PRODUCTS` in kernels/tensor.cu. Slabs of singles take longer than
/// those of convolutions, which have half the bytes: fitted to 400 timings on one H200
/// (2026-11-23), what the model picks for 13 products of networks takes 3.5 % longer in all than
/// the best of each.
const TILES: [Tile; 2] = [WARPS[0].that_takes(0.2, 0.15), WARPS[2].that_takes(0.8, 0.3)];
/// Tiles of pairs of halves, of which a slab has twice as many terms and nothing is rounded:
/// ViT-B/16's and BERT's products, each cut in four ways on one H200 (2026-11-23).
const PAIR_TILES: [Tile; 2] = [WARPS[0].that_takes(0.2, 0.15), WARPS[2].that_takes(0.45, 0.25)];

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

    /// Tiles with what they take.
    pub(super) fn tiles(self) -> &'static [Tile] {
        if self == Self::Pairs { &PAIR_TILES } else { &TILES }
    }
}
