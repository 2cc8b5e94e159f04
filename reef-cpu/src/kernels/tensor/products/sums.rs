//! Sums of products of singles that are no matrices, by vectors: convolutions of single channels, and products of a
//! matrix and a single row.
//!
//! Either one factor is the same for a line of outputs and the others lie evenly apart, or the terms of one output lie
//! in one piece in both inputs.

use crate::kernels::simd::widest;
use crate::kernels::stop_token::StopToken;
use crate::kernels::tensor::formulas::finish;
use reef_core::tensor::{TensorOp, View};

/// Sums that stay in registers while terms are added.
const WIDE: usize = 64;
/// Sums of one vector register.
const NARROW: usize = 16;
/// Sums of two of them.
const TWICE: usize = 2 * NARROW;
/// Lines that are made side by side.
const LINES: usize = 4;
/// Products between two looks at the stop word.
const PRODUCTS: usize = 64 * 1024;
/// Most terms of a sum: tables of them are kept.
const TERMS: usize = 1 << 16;

/// How sums are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The factors of this input are the same for a line of outputs; the other's lie so far apart.
    Line { still: usize, step: usize },
    /// Terms lie in one piece in both inputs.
    Dot,
}

/// A contraction that has vectors.
#[derive(Debug)]
pub(in crate::kernels::tensor) struct Sums {
    shape: Shape,
    kept: [View; 2],
    /// Outputs along the last axis.
    line: usize,
    /// Where the factors of each term lie in both inputs.
    terms: Vec<[usize; 2]>,
}

impl Sums {
    /// `None` if `op`, which was checked, is nothing of the kind.
    pub(in crate::kernels::tensor) fn of(op: &TensorOp) -> Option<Self> {
        let contract = finish::sums(op)?;
        let count = contract.summed[0].len();
        if count == 0 || count > TERMS {
            return None;
        }
        let in_one = |view: &View| view.merged().strides == [1];
        let shape = match contract.kept.each_ref().map(View::step) {
            _ if contract.summed.iter().all(in_one) => Shape::Dot,
            [0, step] if step > 0 => Shape::Line { still: 0, step },
            [step, 0] if step > 0 => Shape::Line { still: 1, step },
            _ => return None,
        };
        let [a, b] = contract.summed.each_ref().map(|view| places(view, count));
        let terms = a.into_iter().zip(b).map(|(a, b)| [a, b]).collect();
        let line = contract.kept[0].dims.last().copied().unwrap_or(1);
        Some(Self { shape, kept: contract.kept.clone(), line, terms })
    }

    /// The outputs from `first` on; false if the block was stopped.
    pub(in crate::kernels::tensor) fn compute(
        &self,
        inputs: [&[f32]; 2],
        first: usize,
        to: &mut [f32],
        stop: StopToken<'_>,
    ) -> bool {
        let (mut at, end) = (0, to.len());
        while at < end {
            if stop.seen() {
                return false;
            }
            let output = first + at;
            let mut run = (self.line - output % self.line).min(end - at).min(self.most());
            let base = [0, 1].map(|k| self.kept[k].offset(output));
            match self.shape {
                Shape::Line { still, step: 1 } => {
                    let (lines, moving) = (self.lines(output, run, end - at, still), 1 - still);
                    let start = |k| self.kept[moving].offset(output + k * run);
                    let values: [&[f32]; LINES] = std::array::from_fn(|k| match k < lines {
                        true => &inputs[moving][start(k)..],
                        false => &[][..],
                    });
                    let to = &mut to[at..at + lines * run];
                    self.side_by_side(&inputs[still][base[still]..], still, &values[..lines], to);
                    run *= lines;
                }
                Shape::Line { still, step } => {
                    self.apart(inputs, base, (still, step), &mut to[at..at + run]);
                }
                Shape::Dot => self.dots(inputs, base, &mut to[at..at + run]),
            }
            at += run;
        }
        !stop.seen()
    }

    /// Outputs between two looks at the stop word.
    fn most(&self) -> usize {
        (PRODUCTS / self.terms.len()).max(1).next_multiple_of(WIDE)
    }

    /// How many lines of `run` outputs, from the one on that begins with `output`, have the same factors; one if they
    /// don't follow each other, or are long enough by themselves, and not more than `left` outputs.
    fn lines(&self, output: usize, run: usize, left: usize, still: usize) -> usize {
        if run < self.line || run > WIDE {
            return 1;
        }
        let factors = self.kept[still].offset(output);
        let most = (left.min(self.most()) / run).clamp(1, LINES);
        let same = |k: &usize| self.kept[still].offset(output + k * run) == factors;
        1 + (1..most).take_while(same).count()
    }

    /// Lines of outputs that have the same factors, and the values of each of them.
    fn side_by_side(&self, factors: &[f32], still: usize, values: &[&[f32]], to: &mut [f32]) {
        let terms = || self.terms.iter().map(|term| (factors[term[still]], term[1 - still]));
        // The last element that is read of the values, but for the output's place.
        let reach = self.terms.iter().map(|term| term[1 - still]).max().unwrap_or(0);
        widest(
            #[inline(always)]
            || match *values {
                [a, b, c, d] => lines([a, b, c, d], terms, reach, to),
                [a, b, c] => lines([a, b, c], terms, reach, to),
                [a, b] => lines([a, b], terms, reach, to),
                [a] => lines([a], terms, reach, to),
                _ => unreachable!("{} lines", values.len()),
            },
        );
    }

    /// As [`line`](Self::line), of values that are `step` elements apart.
    fn apart(
        &self,
        inputs: [&[f32]; 2],
        base: [usize; 2],
        (still, step): (usize, usize),
        to: &mut [f32],
    ) {
        let moving = 1 - still;
        let (factors, values) = (&inputs[still][base[still]..], &inputs[moving][base[moving]..]);
        to.fill(0.0);
        for term in &self.terms {
            let (factor, values) = (factors[term[still]], &values[term[moving]..]);
            for (to, x) in to.iter_mut().zip(values.iter().step_by(step)) {
                *to += factor * x;
            }
        }
    }

    fn dots(&self, inputs: [&[f32]; 2], base: [usize; 2], to: &mut [f32]) {
        let (len, steps) = (self.terms.len(), self.kept.each_ref().map(View::step));
        for (i, to) in to.iter_mut().enumerate() {
            let [a, b] = [0, 1].map(|k| &inputs[k][base[k] + i * steps[k]..][..len]);
            *to = dot(a, b);
        }
    }
}

/// `L` lines of outputs.
#[inline(always)]
fn lines<const L: usize, T: Iterator<Item = (f32, usize)>>(
    values: [&[f32]; L],
    terms: impl Fn() -> T,
    reach: usize,
    to: &mut [f32],
) {
    let (len, mut at) = (to.len() / L, 0);
    let mut put = |at: usize, sums: [&[f32]; L]| {
        for (line, sums) in to.chunks_exact_mut(len).zip(sums) {
            let to = &mut line[at..];
            let count = to.len().min(sums.len());
            to[..count].copy_from_slice(&sums[..count]);
        }
    };
    // Sums beyond the lines are made and forgotten, where there is something to read for them.
    let room = values.iter().map(|values| values.len()).min().unwrap_or(0).saturating_sub(reach);
    while at < len {
        let (left, values) = (len - at, values.map(|values| &values[at..]));
        at += if L < LINES && left >= WIDE && at + WIDE <= room {
            put(at, sums::<L, WIDE>(values, terms()).each_ref().map(|sums| &sums[..]));
            WIDE
        } else if left > NARROW && at + TWICE <= room {
            put(at, sums::<L, TWICE>(values, terms()).each_ref().map(|sums| &sums[..]));
            TWICE
        } else if at + NARROW <= room {
            put(at, sums::<L, NARROW>(values, terms()).each_ref().map(|sums| &sums[..]));
            NARROW
        } else {
            put(at, sums::<L, 1>(values, terms()).each_ref().map(|sums| &sums[..]));
            1
        };
    }
}

/// `N` outputs side by side in each of `L` lines: for each term a factor, and where its values begin.
#[inline(always)]
fn sums<const L: usize, const N: usize>(
    values: [&[f32]; L],
    terms: impl Iterator<Item = (f32, usize)>,
) -> [[f32; N]; L] {
    let mut sums = [[0.0; N]; L];
    for (factor, at) in terms {
        for (sums, values) in sums.iter_mut().zip(values) {
            let values: &[f32; N] = values[at..at + N].try_into().expect("as many");
            for (sum, x) in sums.iter_mut().zip(values) {
                *sum += factor * x;
            }
        }
    }
    sums
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0; WIDE];
    widest(
        #[inline(always)]
        || {
            let ((a, rest_a), (b, rest_b)) = (a.as_chunks::<WIDE>(), b.as_chunks::<WIDE>());
            for (a, b) in a.iter().zip(b) {
                for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
                    *lane += a * b;
                }
            }
            for (lane, (a, b)) in lanes.iter_mut().zip(rest_a.iter().zip(rest_b)) {
                *lane += a * b;
            }
        },
    );
    lanes.iter().sum()
}

/// Where each element lies.
fn places(view: &View, count: usize) -> Vec<usize> {
    let step = view.step();
    view.runs(0, count).flat_map(|(start, run)| (0..run).map(move |i| start + i * step)).collect()
}
