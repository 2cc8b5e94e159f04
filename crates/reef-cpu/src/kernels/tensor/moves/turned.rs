//! Rows and columns that change places: columns of the input become rows of the output, a tile at a
//! time.

use reef_op::tensor::{Element, Kind, NOWHERE, TensorOp};
use std::ops::Range;

/// Rows and columns of a tile.
const TILE: usize = 16;
/// Columns of a block.
const COLUMNS: usize = 1024;
/// Most matrices: a table of them is kept.
const MATRICES: usize = 1 << 20;

/// A move that turns matrices.
#[derive(Debug)]
pub(in crate::kernels::tensor) struct Turned {
    /// Start of each matrix in the input.
    matrices: Vec<usize>,
    /// Rows of a matrix of the output.
    rows: usize,
    columns: usize,
    /// Distance from a column to the next in the input, where a row's follow each other.
    step: usize,
}

impl Turned {
    /// `None` if `op`, which was checked, is nothing of the kind.
    pub(in crate::kernels::tensor) fn of(op: &TensorOp) -> Option<Self> {
        let Kind::Move(moved) = &op.kind else { return None };
        if op.output.element != Element::F32 {
            return None;
        }
        let axes: Vec<_> = moved.tables.iter().filter(|table| table.len() != 1).collect();
        let mut first: usize = moved
            .tables
            .iter()
            .filter(|table| table.len() == 1)
            .try_fold(0usize, |sum, table| (table[0] != NOWHERE).then(|| sum + table[0]))?;
        let (mut columns, mut step, mut left) = (1, 0, axes.len());
        while left > 0 {
            let (start, apart) = even(axes[left - 1])?;
            let joins = columns == 1 || apart == columns * step;
            if !joins || apart == 1 {
                break;
            }
            step = if columns == 1 { apart } else { step };
            (columns, first, left) = (columns * axes[left - 1].len(), first + start, left - 1);
        }
        let (rows, outer) = axes[..left].split_last()?;
        let (start, apart) = even(rows)?;
        if apart != 1 || rows.len() < TILE || columns < TILE {
            return None;
        }
        let mut matrices = vec![first + start];
        for table in outer {
            if table.contains(&NOWHERE) || matrices.len() * table.len() > MATRICES {
                return None;
            }
            matrices =
                matrices.iter().flat_map(|&base| table.iter().map(move |&at| base + at)).collect();
        }
        Some(Self { matrices, rows: rows.len(), columns, step })
    }

    fn grid(&self) -> [usize; 2] {
        [self.columns.div_ceil(COLUMNS), self.rows.div_ceil(self.rows_of_block())]
    }

    fn rows_of_block(&self) -> usize {
        TILE * (COLUMNS / self.columns).max(1)
    }

    pub(in crate::kernels::tensor) fn blocks(&self) -> usize {
        self.matrices.len() * self.grid().iter().product::<usize>()
    }

    /// Calls `write(first output, values)` for all parts of rows of block `index`.
    pub(in crate::kernels::tensor) fn compute(
        &self,
        index: usize,
        from: &[f32],
        mut write: impl FnMut(usize, &[f32]),
    ) {
        let [across, down] = self.grid();
        let (part, row, matrix) = (index % across, index / across % down, index / across / down);
        let first_row = row * self.rows_of_block();
        let rows = first_row..self.rows.min(first_row + self.rows_of_block());
        let columns = part * COLUMNS..self.columns.min((part + 1) * COLUMNS);
        let from = &from[self.matrices[matrix]..];
        let mut tile = [[0.0; TILE]; TILE];
        for first_row in rows.clone().step_by(TILE) {
            let rows = first_row..rows.end.min(first_row + TILE);
            for first in columns.clone().step_by(TILE) {
                let some = first..columns.end.min(first + TILE);
                let from = &from[rows.start + first * self.step..];
                self.turn(from, rows.len(), some.len(), &mut tile);
                for (row, tile) in rows.clone().zip(&tile) {
                    let to = (matrix * self.rows + row) * self.columns + first;
                    write(to, &tile[..some.len()]);
                }
            }
        }
    }

    /// Columns of the input as rows of `tile`.
    fn turn(&self, from: &[f32], rows: usize, columns: usize, tile: &mut [[f32; TILE]; TILE]) {
        #[cfg(target_arch = "x86_64")]
        if [rows, columns] == [TILE; 2] && is_x86_feature_detected!("avx512f") {
            for (column, to) in tile.iter_mut().enumerate() {
                to.copy_from_slice(&from[column * self.step..][..TILE]);
            }
            // SAFETY: the machine has AVX-512.
            return unsafe { super::tile::turn(tile) };
        }
        for column in 0..columns {
            let from = &from[column * self.step..][..rows];
            for (row, &x) in tile.iter_mut().zip(from) {
                row[column] = x;
            }
        }
    }
}

/// The first of places that are evenly apart, and how far; `None` if they are not, or one is
/// nowhere.
fn even(table: &[usize]) -> Option<(usize, usize)> {
    let (&first, &second) = (table.first()?, table.get(1)?);
    let apart = second.checked_sub(first)?;
    let all: Range<usize> = 0..table.len();
    let is_even = first != NOWHERE
        && all.clone().all(|k| {
            let place = k.checked_mul(apart).and_then(|by| first.checked_add(by));
            place.is_some_and(|place| place != NOWHERE && place == table[k])
        });
    is_even.then_some((first, apart))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_op::tensor::{Array, Move, Scalar, Spec};

    #[test]
    fn places_that_are_nowhere_are_not_even() {
        assert_eq!(even(&[3, 5, 7]), Some((3, 2)));
        for table in [&[7, NOWHERE][..], &[NOWHERE, 7], &[0, usize::MAX - 1, 5], &[5, 3]] {
            assert_eq!(even(table), None, "{table:?}");
        }
    }

    fn op(input: usize, tables: Vec<Vec<usize>>) -> TensorOp {
        let single = |dims| Spec { element: Element::F32, dims };
        let output = single(tables.iter().map(Vec::len).collect());
        let kind = Kind::Move(Move { tables, fill: Scalar::Whole(0) });
        TensorOp { kind, inputs: vec![single(vec![input])], output }
    }

    fn all(len: usize, step: usize) -> Vec<usize> {
        (0..len).map(|i| i * step).collect()
    }

    #[test]
    fn matrices_are_turned_as_the_definition_says() {
        for tables in [
            vec![all(2, 40 * 60), all(40, 1), all(6, 400), all(10, 40)],
            vec![all(33, 1), all(17, 70)],
            vec![vec![5], all(16, 1), vec![3], all(1100, 18)],
        ] {
            let op = op(40_000, tables);
            op.check().unwrap();
            let from: Vec<f32> = (0..40_000).map(|i| i as f32).collect();
            let turned = Turned::of(&op).expect("matrices");
            let mut made = vec![-1.0; op.output.elements()];
            for index in 0..turned.blocks() {
                turned.compute(index, &from, |first, values| {
                    made[first..first + values.len()].copy_from_slice(values);
                });
            }
            let values = Array::F32(from.clone());
            let want = op.compute(&[values.values()], 0..made.len(), &|| false).unwrap();
            assert_eq!(Some(Array::F32(made)), want, "{op:?}");
        }
    }

    #[test]
    fn uneven_or_sourceless_rows_are_not_turned() {
        let mut uneven = all(20, 30);
        uneven[7] += 1;
        assert!(Turned::of(&op(900, vec![all(20, 1), uneven])).is_none());
        let nowhere = [all(20, 30), vec![NOWHERE]].concat();
        assert!(Turned::of(&op(900, vec![all(20, 1), nowhere])).is_none());
        assert!(Turned::of(&op(900, vec![all(20, 30), all(20, 1)])).is_none(), "as it is");
    }
}
