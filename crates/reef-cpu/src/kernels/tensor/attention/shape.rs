//! Rows that see the same keys, and their places in memory.

use crate::kernels::product::tile::ROWS;
use reef_op::tensor::{Attention, View};
use std::ops::Range;

/// Places that tables may have.
const PLACES: usize = 1 << 22;
/// Fewest rows that see the same keys for which packing these pays.
const MIN_ROWS: usize = 4;
/// Most rows of a block: with a tile of keys their scores stay in the second cache.
const MAX_ROWS: usize = 16 * ROWS;
/// Most products of a block, unless that is less than a few tiles: some hundred microseconds with
/// AVX-512.
const PRODUCTS: usize = 24 << 20;
const FEW_ROWS: usize = 4 * ROWS;

/// Rows in groups that see the same keys, and where each of them begins in queries, keys, values,
/// and then in what scores are changed with.
#[derive(Debug)]
pub(super) struct Shape {
    /// Places of a group's first row.
    groups: Vec<Vec<usize>>,
    /// Places of the rows of each group, from the first one on.
    rows: Vec<Vec<usize>>,
    /// Index in the output of each group's first row, and offsets of the others from there.
    outputs: [Vec<usize>; 2],
    rows_of_block: usize,
}

impl Shape {
    /// `None` if it has too few rows for their keys, or too many.
    pub(super) fn of(attention: &Attention) -> Option<Self> {
        let dims = attention.rows();
        let rank = dims.len();
        let reads = attention.scores.iter().filter_map(|step| step.reads()).map(|(view, _)| view);
        let placed = [&attention.queries, &attention.keys, &attention.values];
        let firsts: Vec<usize> = placed.iter().map(|placed| placed.first).collect();
        let views: Vec<&View> = placed.iter().map(|placed| &placed.view).chain(reads).collect();
        let shared = |axis: &usize| views[1].strides[*axis] == 0 && views[2].strides[*axis] == 0;
        let (within, across): (Vec<usize>, Vec<usize>) =
            (0..rank).filter(|&axis| dims[axis] > 1).partition(shared);
        let dense = View::dense(dims);
        let count = |axes: &[usize]| dense.axes(axes).len();
        let few = count(&within) < MIN_ROWS;
        if few || count(&within).max(count(&across)) * (views.len() + 1) > PLACES {
            return None;
        }
        let places = |axes: &[usize], view: &View, first: usize| -> Vec<usize> {
            let view = view.axes(axes);
            (0..view.len()).map(|i| first + view.offset(i)).collect()
        };
        let first = |k: usize| firsts.get(k).copied().unwrap_or(0);
        let groups = views.iter().enumerate().map(|(k, view)| places(&across, view, first(k)));
        let rows = views.iter().map(|view| places(&within, view, 0));
        let [keys, depth, width] = attention.sizes();
        Some(Self {
            groups: groups.collect(),
            rows: rows.collect(),
            outputs: [places(&across, &dense, 0), places(&within, &dense, 0)],
            rows_of_block: rows_of_block(count(&within), keys.saturating_mul(depth + width)),
        })
    }

    pub(super) fn rows_of_block(&self) -> usize {
        self.rows_of_block
    }

    /// Blocks for the rows of a group.
    fn shares(&self) -> usize {
        self.outputs[1].len().div_ceil(self.rows_of_block)
    }

    pub(super) fn blocks(&self) -> usize {
        self.shares() * self.outputs[0].len()
    }

    /// The group and the rows of block `index`. Neighbours share keys.
    pub(super) fn share(&self, index: usize) -> (usize, Range<usize>) {
        let first = index % self.shares() * self.rows_of_block;
        let end = self.outputs[1].len().min(first + self.rows_of_block);
        (index / self.shares(), first..end)
    }

    /// Start of a row in an operand.
    pub(super) fn place(&self, operand: usize, group: usize, row: usize) -> usize {
        self.groups[operand][group] + self.rows[operand][row]
    }

    /// Index of the row in the output.
    pub(super) fn output(&self, group: usize, row: usize) -> usize {
        self.outputs[0][group] + self.outputs[1][row]
    }
}

/// Rows of a block, each of which takes `products` products: as few blocks as may be, of one size.
fn rows_of_block(rows: usize, products: usize) -> usize {
    let most = (PRODUCTS / products.max(1)).clamp(FEW_ROWS, MAX_ROWS);
    rows.div_ceil(rows.div_ceil(most)).next_multiple_of(ROWS).min(rows)
}
