//! Sums of products that are products of matrices of f32, by the tuned product of a tile.
//!
//! An axis of the outputs along which one input stands still belongs to rows or to columns, as the
//! other input says; where both move it counts matrices. Columns are those with the outputs' last
//! axis, so that outputs are written in runs. For a convolution columns are pixels and rows are its
//! outputs' channels.
//!
//! A block makes one panel of columns for some rows: it packs the panel, a few hundred terms at a
//! time, and polls the stop word after each tile. Sums are in the unit's scratch memory until
//! nothing can stop the block any more.

use super::panel::{is_run, pack_panel, pack_rows};
use super::tiles::{Pitched, multiply_tile};
use crate::kernels::blocks::stop_token::StopToken;
use crate::kernels::product::tile::{COLUMNS, ROWS};
use crate::kernels::tensor::formulas::finish::sums;
use reef_op::tensor::{TensorOp, View};
use std::ops::Range;

/// Terms for which a panel is packed: with it, a tile's rows stay in the second cache.
const DEPTH: usize = 512;
/// Most rows of a block: their sums are committed in some ten microseconds.
const MAX_ROWS: usize = 28 * 1024 / COLUMNS;
/// Most products of a block: about 200 microseconds with AVX-512.
const PRODUCTS: usize = 10 << 20;
/// Sizes from which packing pays.
const MIN_ROWS: usize = 4;
const MIN_COLUMNS: usize = 8;
/// Places that tables may have.
const PLACES: usize = 1 << 22;

/// Places in an input and in the output, or in both inputs.
type OffsetPairs = Vec<[usize; 2]>;

/// A contraction as products of matrices.
#[derive(Debug)]
pub(in crate::kernels::tensor) struct Matrices {
    /// Index of the input that has the rows: the other one has the columns.
    pub(in crate::kernels::tensor) left: usize,
    /// First elements of each matrix: in the left input, the right one, the output.
    batch: Vec<[usize; 3]>,
    /// Places of rows in the left input and the output.
    rows: OffsetPairs,
    /// Places of columns in the right input and the output.
    columns: OffsetPairs,
    /// Places of terms in the left and the right input.
    terms: OffsetPairs,
    /// Elements from row to row of the left input, if its rows need no packing.
    pitch: Option<usize>,
    rows_of_block: usize,
}

/// An axis: its size, and the strides of both inputs and the output.
type Axis = (usize, [usize; 3]);

impl Matrices {
    /// `None` if `op`, which was checked, is nothing of the kind, or too small for it to pay.
    pub(in crate::kernels::tensor) fn of(op: &TensorOp) -> Option<Self> {
        let contract = sums(op)?;
        let kept = axes(&contract.kept);
        let last = kept.last()?.1;
        let left = match (last[0] > 0, last[1] > 0) {
            (false, true) => 0,
            (true, false) => 1,
            _ => return None,
        };
        let right = 1 - left;
        let moves = |axis: &Axis, in_left, in_right| {
            (axis.1[left] > 0, axis.1[right] > 0) == (in_left, in_right)
        };
        let (rows, others): (Vec<Axis>, Vec<Axis>) =
            kept.into_iter().partition(|axis| moves(axis, true, false));
        let (columns, batch): (Vec<Axis>, Vec<Axis>) =
            others.into_iter().partition(|axis| moves(axis, false, true));
        let summed = axes(&contract.summed);
        let sizes = [&rows, &columns, &batch, &summed].map(|axes| count(axes));
        let [row_count, column_count, _, term_count] = sizes;
        let pays = row_count >= MIN_ROWS && column_count >= MIN_COLUMNS && term_count > 0;
        if !pays || sizes.iter().any(|&size| size > PLACES) {
            return None;
        }
        let pair = |axes: &[Axis], first, second| -> OffsetPairs {
            places(axes).into_iter().map(|place| [place[first], place[second]]).collect()
        };
        let batch = places(&batch).into_iter().map(|at| [at[left], at[right], at[2]]).collect();
        let (rows, terms) = (pair(&rows, left, 2), pair(&summed, left, right));
        let pitch = pitch(&rows, &terms);
        let rows_of_block = rows_of_block(row_count, term_count, pitch.is_some());
        let columns = pair(&columns, right, 2);
        Some(Self { left, batch, rows, columns, terms, pitch, rows_of_block })
    }

    /// Blocks along rows and panels.
    fn grid(&self) -> [usize; 2] {
        [self.rows.len().div_ceil(self.rows_of_block), self.columns.len().div_ceil(COLUMNS)]
    }

    pub(in crate::kernels::tensor) fn blocks(&self) -> usize {
        self.grid().iter().product::<usize>() * self.batch.len()
    }

    /// Floats of scratch memory that a block takes: sums, a panel, and rows that are packed.
    pub(in crate::kernels::tensor) fn scratch(&self) -> usize {
        let packed = if self.pitch.is_some() { 0 } else { self.rows_of_block * DEPTH };
        self.rows_of_block * COLUMNS + DEPTH * COLUMNS + packed
    }

    /// Matrix, rows and columns of block `index`. Neighbours share a panel.
    fn share(&self, index: usize) -> (usize, Range<usize>, Range<usize>) {
        let [rows, panels] = self.grid();
        let (row, panel) = (index % rows * self.rows_of_block, index / rows % panels * COLUMNS);
        let row_end = self.rows.len().min(row + self.rows_of_block);
        let column_end = self.columns.len().min(panel + COLUMNS);
        (index / (rows * panels), row..row_end, panel..column_end)
    }

    /// Computes the sums of block `index` at the start of `scratch`, [`COLUMNS`] for each row;
    /// false if it was stopped.
    pub(in crate::kernels::tensor) fn compute(
        &self,
        index: usize,
        [left, right]: [&[f32]; 2],
        scratch: &mut [f32],
        stop: StopToken<'_>,
    ) -> bool {
        let (matrix, rows, columns) = self.share(index);
        let [first_left, first_right, _] = self.batch[matrix];
        let (sums, rest) = scratch.split_at_mut(self.rows_of_block * COLUMNS);
        let (panel, packed) = rest.split_at_mut(DEPTH * COLUMNS);
        for start in (0..self.terms.len()).step_by(DEPTH) {
            let terms = &self.terms[start..self.terms.len().min(start + DEPTH)];
            pack_panel(&right[first_right..], terms, &self.columns[columns.clone()], panel);
            let (rows_from, pitch) = match self.pitch {
                Some(pitch) => (&left[first_left + self.rows[rows.start][0] + start..], pitch),
                None => {
                    let rows = &self.rows[rows.clone()];
                    pack_rows(&left[first_left..], terms, rows, packed, DEPTH);
                    (&*packed, DEPTH)
                }
            };
            for row in (0..rows.len()).step_by(ROWS) {
                if stop.is_set() {
                    return false;
                }
                let tile_rows = ROWS.min(rows.len() - row);
                let from = &rows_from[row * pitch..][..(tile_rows - 1) * pitch + terms.len()];
                let to = &mut sums[row * COLUMNS..][..tile_rows * COLUMNS];
                let from = Pitched { floats: from, pitch };
                let mut to = Pitched { floats: to, pitch: COLUMNS };
                let sizes = [tile_rows, columns.len(), terms.len()];
                multiply_tile(&from, panel, &mut to, sizes, start == 0);
            }
        }
        !stop.is_set()
    }

    /// Calls `take(first output, values)` for each run of the sums that [`compute`](Self::compute)
    /// made, until it gives false; gives what the last call gave.
    pub(in crate::kernels::tensor) fn each_run(
        &self,
        index: usize,
        sums: &mut [f32],
        mut take: impl FnMut(usize, &mut [f32]) -> bool,
    ) -> bool {
        let (matrix, rows, columns) = self.share(index);
        let places = &self.columns[columns];
        let runs = runs(places);
        rows.zip(sums.chunks_mut(COLUMNS)).all(|(row, sums)| {
            let first = self.batch[matrix][2] + self.rows[row][1];
            runs.iter().all(|run| take(first + places[run.start][1], &mut sums[run.clone()]))
        })
    }
}

/// Ranges of places whose outputs adjoin.
fn runs(places: &[[usize; 2]]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (k, place) in places.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if place[1] == places[k - 1][1] + 1 => run.end += 1,
            _ => runs.push(k..k + 1),
        }
    }
    runs
}

/// Axes of more than one element. The outputs are dense in the order of the axes; of sums they
/// don't matter.
fn axes(views: &[View; 2]) -> Vec<Axis> {
    let dense = View::dense(&views[0].dims).strides;
    let axis = |k: usize| (views[0].dims[k], [views[0].strides[k], views[1].strides[k], dense[k]]);
    (0..dense.len()).map(axis).filter(|(size, _)| *size != 1).collect()
}

fn count(axes: &[Axis]) -> usize {
    axes.iter().map(|(size, _)| *size).fold(1, usize::saturating_mul)
}

/// Place of each element, row-major.
fn places(axes: &[Axis]) -> Vec<[usize; 3]> {
    axes.iter().fold(vec![[0; 3]], |places, (size, strides)| {
        let along = |place: [usize; 3]| {
            (0..*size).map(move |i| [0, 1, 2].map(|k| place[k] + i * strides[k]))
        };
        places.into_iter().flat_map(along).collect()
    })
}

/// Distance from row to row, if terms adjoin and rows are equally far apart.
fn pitch(rows: &OffsetPairs, terms: &OffsetPairs) -> Option<usize> {
    let pitch = rows.get(1).map_or(0, |row| row[0]);
    let even = rows.iter().enumerate().all(|(k, row)| row[0] == k * pitch);
    (even && is_run(terms.iter().map(|term| term[0]))).then_some(pitch)
}

fn rows_of_block(rows: usize, terms: usize, direct: bool) -> usize {
    let most = if direct { MAX_ROWS } else { MAX_ROWS / 8 };
    let most = (PRODUCTS / (terms * COLUMNS)).clamp(ROWS, most);
    rows.min(most.next_multiple_of(ROWS))
}
