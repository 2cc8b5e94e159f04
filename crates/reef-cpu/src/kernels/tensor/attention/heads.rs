//! A block: some rows and all of their keys.

use super::scores::{State, change};
use super::shape::Shape;
use crate::kernels::blocks::stop_token::StopToken;
use crate::kernels::product::tile::{COLUMNS, ROWS};
use crate::kernels::tensor::products::pack::{Axis, pack_columns};
use crate::kernels::tensor::products::tiles::{Pitched, multiply_tile};
use reef_op::tensor::{Attention, Element, Kind, TensorOp, Values};
use std::ops::Range;

/// Keys of a tile: a panel of values for all of them stays in the first cache.
const KEYS: usize = 256;
/// Most elements of a key and of a value: memory for a block's rows depends on these.
const MAX_TERMS: usize = 2048;

/// Attention that is made by tiles of keys.
#[derive(Debug)]
pub(in crate::kernels::tensor) struct Heads {
    attention: Attention,
    shape: Shape,
    keys: usize,
    depth: usize,
    width: usize,
}

/// Scratch memory of a block.
struct Work<'a> {
    queries: &'a mut [f32],
    /// A row of [`KEYS`] for each of the block's.
    scores: &'a mut [f32],
    /// Panel of keys or values.
    panel: &'a mut [f32],
    /// Products of weights with values.
    sums: &'a mut [f32],
}

impl Heads {
    /// `None` if `op`, which was checked, is not an attention, or has sizes for which separate
    /// operations are better.
    pub(in crate::kernels::tensor) fn of(op: &TensorOp) -> Option<Self> {
        let Kind::Attention(attention) = &op.kind else { return None };
        let [keys, depth, width] = attention.sizes();
        let mut specs = op.inputs[..3].iter().chain([&op.output]);
        if depth.max(width) > MAX_TERMS || specs.any(|spec| spec.element != Element::F32) {
            return None;
        }
        Some(Self {
            shape: Shape::of(attention)?,
            attention: attention.clone(),
            keys,
            depth,
            width,
        })
    }

    pub(in crate::kernels::tensor) fn blocks(&self) -> usize {
        self.shape.blocks()
    }

    /// Floats from a row of sums to the next.
    fn pitch(&self) -> usize {
        self.width.next_multiple_of(COLUMNS)
    }

    /// Floats of scratch memory that a block takes: sums first.
    pub(in crate::kernels::tensor) fn scratch(&self) -> usize {
        let row = self.pitch() + self.depth + KEYS;
        self.shape.rows_of_block() * row + self.panel()
    }

    fn panel(&self) -> usize {
        self.depth.max(KEYS) * COLUMNS
    }

    fn work<'a>(&self, scratch: &'a mut [f32]) -> Work<'a> {
        let rows = self.shape.rows_of_block();
        let (sums, rest) = scratch.split_at_mut(rows * self.pitch());
        let (queries, rest) = rest.split_at_mut(rows * self.depth);
        let (scores, panel) = rest.split_at_mut(rows * KEYS);
        Work { queries, scores, panel, sums }
    }

    /// Computes the rows of block `index` at the start of `scratch`; false if it was stopped.
    pub(in crate::kernels::tensor) fn compute(
        &self,
        index: usize,
        inputs: &[Values<'_>],
        scratch: &mut [f32],
        stop: StopToken<'_>,
    ) -> bool {
        let (group, rows) = self.shape.share(index);
        let work = &mut self.work(scratch);
        let [q, k, v] = [0, 1, 2].map(|input| singles(&inputs[input]));
        self.pack_queries(q, group, rows.clone(), work.queries);
        let mut states = vec![State::EMPTY; rows.len()];
        for first in (0..self.keys).step_by(KEYS) {
            let keys = first..self.keys.min(first + KEYS);
            let done =
                self.fit(&k[self.shape.place(1, group, 0)..], keys.clone(), rows.len(), work, stop)
                    && self.weigh(
                        inputs,
                        group,
                        rows.clone(),
                        keys.clone(),
                        &mut states,
                        work,
                        stop,
                    )
                    && self.add(&v[self.shape.place(2, group, 0)..], keys, rows.len(), work, stop);
            if !done {
                return false;
            }
        }
        for (state, row) in states.iter().zip(work.sums.chunks_mut(self.pitch())) {
            state.finish(&mut row[..self.width], self.attention.none_is_zero);
        }
        !stop.is_set()
    }

    fn pack_queries(&self, from: &[f32], group: usize, rows: Range<usize>, to: &mut [f32]) {
        let stride = self.attention.queries.view.step();
        for (row, to) in rows.zip(to.chunks_mut(self.depth)) {
            let from = &from[self.shape.place(0, group, row)..];
            to.iter_mut().enumerate().for_each(|(t, to)| *to = from[t * stride]);
        }
    }

    /// Scores of some keys.
    fn fit(
        &self,
        from: &[f32],
        keys: Range<usize>,
        rows: usize,
        work: &mut Work<'_>,
        stop: StopToken<'_>,
    ) -> bool {
        let steps = last_two(&self.attention.keys.view.strides);
        for key in (0..keys.len()).step_by(COLUMNS) {
            let columns = COLUMNS.min(keys.len() - key);
            let from = &from[(keys.start + key) * steps[0]..];
            let packed = Axis { len: columns, stride: steps[0] };
            let terms = Axis { len: self.depth, stride: steps[1] };
            pack_columns(from, packed, terms, work.panel);
            for row in (0..rows).step_by(ROWS) {
                if stop.is_set() {
                    return false;
                }
                let queries =
                    Pitched { floats: &work.queries[row * self.depth..], pitch: self.depth };
                let mut to = Pitched { floats: &mut work.scores[row * KEYS + key..], pitch: KEYS };
                let sizes = [ROWS.min(rows - row), columns, self.depth];
                multiply_tile(&queries, work.panel, &mut to, sizes, true);
            }
        }
        true
    }

    /// Makes weights of scores, and scales what was added before down to them.
    #[expect(
        clippy::too_many_arguments,
        reason = "a block's parts, which nothing else has together"
    )]
    fn weigh(
        &self,
        inputs: &[Values<'_>],
        group: usize,
        rows: Range<usize>,
        keys: Range<usize>,
        states: &mut [State],
        work: &mut Work<'_>,
        stop: StopToken<'_>,
    ) -> bool {
        let sums = work.sums.chunks_mut(self.pitch());
        let scores = work.scores.chunks_mut(KEYS);
        for (((row, state), scores), sums) in rows.zip(states).zip(scores).zip(sums) {
            if stop.is_set() {
                return false;
            }
            let scores = &mut scores[..keys.len()];
            let mut operand = 3;
            for step in &self.attention.scores {
                let read = step.reads().map(|(view, _)| {
                    let place = self.shape.place(operand, group, row) + keys.start * view.step();
                    (&inputs[operand], place, view.step())
                });
                operand += usize::from(read.is_some());
                change(scores, step, read);
            }
            let before = state.take(scores);
            if keys.start > 0 && before != 1.0 {
                sums.iter_mut().for_each(|sum| *sum *= before);
            }
        }
        true
    }

    /// Adds values of some keys by their weights.
    fn add(
        &self,
        from: &[f32],
        keys: Range<usize>,
        rows: usize,
        work: &mut Work<'_>,
        stop: StopToken<'_>,
    ) -> bool {
        let steps = last_two(&self.attention.values.view.strides);
        let pitch = self.pitch();
        for column in (0..self.width).step_by(COLUMNS) {
            let columns = COLUMNS.min(self.width - column);
            let from = &from[keys.start * steps[0] + column * steps[1]..];
            let packed = Axis { len: columns, stride: steps[1] };
            let terms = Axis { len: keys.len(), stride: steps[0] };
            pack_columns(from, packed, terms, work.panel);
            for row in (0..rows).step_by(ROWS) {
                if stop.is_set() {
                    return false;
                }
                let weights = Pitched { floats: &work.scores[row * KEYS..], pitch: KEYS };
                let mut to = Pitched { floats: &mut work.sums[row * pitch + column..], pitch };
                let sizes = [ROWS.min(rows - row), columns, keys.len()];
                multiply_tile(&weights, work.panel, &mut to, sizes, keys.start == 0);
            }
        }
        true
    }

    /// Calls `write(first output, values)` for the rows that [`compute`](Self::compute) made.
    pub(in crate::kernels::tensor) fn commit(
        &self,
        index: usize,
        sums: &[f32],
        mut write: impl FnMut(usize, &[f32]),
    ) {
        let (group, rows) = self.shape.share(index);
        for (row, sums) in rows.zip(sums.chunks(self.pitch())) {
            write(self.shape.output(group, row) * self.width, &sums[..self.width]);
        }
    }
}

fn last_two(strides: &[usize]) -> [usize; 2] {
    [strides[strides.len() - 2], strides[strides.len() - 1]]
}

/// Values that were checked to be singles.
fn singles<'a>(values: &Values<'a>) -> &'a [f32] {
    match *values {
        Values::F32(values) => values,
        _ => unreachable!("it was checked"),
    }
}
