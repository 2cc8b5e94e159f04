//! Singles from elsewhere, by runs: paddings, slices, and axes in another order.

use reef_op::tensor::{Element, Kind, Move, NOWHERE, Scalar, TensorOp};
use std::ops::Range;

/// Outputs of a block at most.
const OUTPUTS: usize = 16 * 1024;
/// Rows that are made side by side, if their elements adjoin in the input.
const ROWS: usize = 16;
/// Columns of theirs that are.
const TILE: usize = 16;
/// Fewest outputs of a run, on the average.
const RUN: usize = 4;

/// Source of some adjoining columns of each row.
#[derive(Debug)]
struct Run {
    columns: Range<usize>,
    /// The first one's place, and how far the others are apart; `None` for the filling.
    from: Option<[usize; 2]>,
}

impl Run {
    /// Takes in the next column, which comes from `at`, if it goes on like that.
    fn extend(&mut self, at: usize) -> bool {
        let goes_on = match &mut self.from {
            None => at == NOWHERE,
            Some(_) if at == NOWHERE => false,
            Some([first, step]) if self.columns.len() == 1 => match at.checked_sub(*first) {
                Some(apart) => {
                    *step = apart;
                    true
                }
                None => false,
            },
            Some([first, step]) => at == *first + self.columns.len() * *step,
        };
        self.columns.end += usize::from(goes_on);
        goes_on
    }
}

/// A move of singles whose rows are made of runs.
#[derive(Debug)]
pub(in crate::kernels::tensor) struct Moves {
    /// Offsets in the input for each axis of the output but the last one.
    tables: Vec<Vec<usize>>,
    runs: Vec<Run>,
    fill: f32,
    /// Outputs of a row.
    row: usize,
    /// Outputs of a block: whole rows.
    pub(in crate::kernels::tensor) outputs: usize,
}

impl Moves {
    /// `None` if `op`, which was checked, is nothing of the kind.
    pub(in crate::kernels::tensor) fn of(op: &TensorOp) -> Option<Self> {
        let Kind::Move(moved) = &op.kind else { return None };
        let (last, tables) = moved.tables.split_last()?;
        let (runs, row) = (runs(last), last.len());
        let fill = match moved.fill {
            Scalar::Real(number) => number as f32,
            Scalar::Whole(number) => number as f32,
        };
        let fits = op.output.element == Element::F32 && (1..=OUTPUTS).contains(&row);
        if !fits || runs.len() * RUN > row {
            return None;
        }
        let rows = OUTPUTS / row;
        let outputs = row * if rows > ROWS { rows / ROWS * ROWS } else { rows };
        Some(Self { tables: tables.to_vec(), runs, fill, row, outputs })
    }

    /// The outputs from `first` on, which begins a row.
    pub(in crate::kernels::tensor) fn compute(&self, from: &[f32], first: usize, to: &mut [f32]) {
        let first = first / self.row;
        let bases = self.bases(first, to.len() / self.row);
        let (mut row, mut rest) = (0, to);
        while row < bases.len() {
            let rows = adjoining(&bases[row..]);
            let (to, behind) = rest.split_at_mut(rows * self.row);
            match bases[row] {
                Some(base) => self.runs.iter().for_each(|run| self.move_run(from, base, run, to)),
                None => to.fill(self.fill),
            }
            (row, rest) = (row + rows, behind);
        }
    }

    /// Start in the input of each of `count` rows from `first` on; `None` for rows that don't come
    /// from there.
    fn bases(&self, first: usize, count: usize) -> Vec<Option<usize>> {
        let Some((last, others)) = self.tables.split_last() else { return vec![Some(0); count] };
        let mut bases = Vec::with_capacity(count);
        while bases.len() < count {
            let row = first + bases.len();
            let inner = last[row % last.len()..].iter().take(count - bases.len());
            match Move::base(others, row / last.len()) {
                Some(base) => {
                    bases.extend(inner.map(|&at| (at != NOWHERE).then(|| base + at)));
                }
                None => bases.extend(inner.map(|_| None)),
            }
        }
        bases
    }

    /// A run of rows that begin at `base` and in the elements behind it.
    fn move_run(&self, from: &[f32], base: usize, run: &Run, to: &mut [f32]) {
        let (rows, columns) = (to.len() / self.row, run.columns.clone());
        let each_row = to.chunks_exact_mut(self.row).map(|row| &mut row[columns.clone()]);
        match run.from {
            None => each_row.for_each(|to| to.fill(self.fill)),
            Some([first, 1]) => each_row.enumerate().for_each(|(k, to)| {
                to.copy_from_slice(&from[base + first + k..][..to.len()]);
            }),
            Some([first, step]) => {
                let from = &from[base + first..];
                for first in columns.clone().step_by(TILE) {
                    let from = &from[(first - columns.start) * step..];
                    let columns = first..columns.end.min(first + TILE);
                    if rows == ROWS && columns.len() == TILE {
                        turn(from, step, &mut to[first..], self.row);
                        continue;
                    }
                    for (k, to) in to.chunks_exact_mut(self.row).enumerate() {
                        let to = to[columns.clone()].iter_mut().enumerate();
                        to.for_each(|(column, to)| *to = from[k + column * step]);
                    }
                }
            }
        }
    }
}

/// Turns a tile: [`TILE`] pieces of the input, `step` apart, become columns of [`ROWS`] rows that
/// are `pitch` apart.
fn turn(from: &[f32], step: usize, to: &mut [f32], pitch: usize) {
    let mut tile = [[0.0; TILE]; ROWS];
    for column in 0..TILE {
        let from: &[f32; ROWS] = from[column * step..][..ROWS].try_into().expect("as many");
        for (row, &x) in tile.iter_mut().zip(from) {
            row[column] = x;
        }
    }
    for (row, to) in tile.iter().zip(to.chunks_mut(pitch)) {
        to[..TILE].copy_from_slice(row);
    }
}

/// Number of rows, [`ROWS`] at most, that begin one element after the one before; or have no
/// source.
fn adjoining(bases: &[Option<usize>]) -> usize {
    let follows = |(k, base): &(usize, &Option<usize>)| **base == bases[0].map(|first| first + k);
    bases.iter().enumerate().take(ROWS).take_while(follows).count()
}

/// An axis of the output as runs.
fn runs(table: &[usize]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (column, &at) in table.iter().enumerate() {
        if !runs.last_mut().is_some_and(|run| run.extend(at)) {
            let from = (at != NOWHERE).then_some([at, 1]);
            runs.push(Run { columns: column..column + 1, from });
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_op::tensor::{Array, Spec};

    fn op(input: usize, tables: Vec<Vec<usize>>) -> TensorOp {
        let single = |dims| Spec { element: Element::F32, dims };
        let output = single(tables.iter().map(Vec::len).collect());
        let kind = Kind::Move(Move { tables, fill: Scalar::Real(-1.0) });
        TensorOp { kind, inputs: vec![single(vec![input])], output }
    }

    #[test]
    fn any_rows_are_what_the_definition_says() {
        let all = |len: usize, step: usize| -> Vec<usize> { (0..len).map(|i| i * step).collect() };
        let padded =
            |len: usize| -> Vec<usize> { [vec![NOWHERE; 2], all(len, 1), vec![NOWHERE]].concat() };
        let upside_down: Vec<usize> = all(9, 20).into_iter().rev().collect();
        for tables in [
            vec![all(3, 400), all(20, 1), all(20, 20)],
            vec![all(3, 400), [vec![NOWHERE], all(20, 20)].concat(), padded(20)],
            vec![upside_down, [all(8, 1), vec![3; 5], vec![NOWHERE; 3], all(9, 2)].concat()],
            vec![all(40, 30), vec![5; 12]],
        ] {
            let op = op(1200, tables);
            op.check().unwrap();
            let from: Vec<f32> = (0..1200).map(|i| i as f32).collect();
            let moves = Moves::of(&op).expect("runs");
            for first in [0, 3 * moves.row] {
                let range = first..op.output.elements();
                let mut made = vec![0.0; range.len()];
                moves.compute(&from, first, &mut made);
                let values = Array::F32(from.clone());
                let want = op.compute(&[values.values()], range, &|| false).unwrap();
                assert_eq!(Some(Array::F32(made)), want, "{op:?} from {first}");
            }
        }
    }

    #[test]
    fn scattered_rows_have_no_runs() {
        assert!(Moves::of(&op(20, vec![vec![0, 7, 3, 11, 2, 19, 5, 4]])).is_none());
    }
}
