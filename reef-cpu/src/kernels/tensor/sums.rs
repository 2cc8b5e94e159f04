//! Sums of products of singles that are no matrices, by vectors: convolutions of single channels, and products of a
//! matrix and a single row.
//!
//! Either one factor is the same for a line of outputs and the others lie evenly apart, or the terms of one output lie
//! in one piece in both inputs.

use crate::kernels::simd::widest;
use crate::kernels::stop_token::StopToken;
use reef_core::tensor::{Domain, Element, Kind, TensorOp, View};

/// Sums that stay in registers while terms are added.
const WIDE: usize = 64;
/// Sums of one vector register.
const NARROW: usize = 16;
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
pub(super) struct Sums {
    shape: Shape,
    kept: [View; 2],
    /// Outputs along the last axis.
    line: usize,
    /// Where the factors of each term lie in both inputs.
    terms: Vec<[usize; 2]>,
}

impl Sums {
    /// `None` if `op`, which was checked, is nothing of the kind.
    pub(super) fn of(op: &TensorOp) -> Option<Self> {
        let Kind::Contract(contract) = &op.kind else { return None };
        let singles = op.inputs.iter().chain([&op.output]).all(|spec| spec.element == Element::F32);
        let count = contract.summed[0].len();
        if !singles || contract.domain != Domain::F32 || count == 0 || count > TERMS {
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
    pub(super) fn compute(
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
            let run = (self.line - output % self.line).min(end - at).min(self.most());
            let base = [0, 1].map(|k| self.kept[k].offset(output));
            let part = &mut to[at..at + run];
            match self.shape {
                Shape::Line { still, step: 1 } => self.line(inputs, base, still, part),
                Shape::Line { still, step } => self.apart(inputs, base, (still, step), part),
                Shape::Dot => self.dots(inputs, base, part),
            }
            at += run;
        }
        !stop.seen()
    }

    /// Outputs between two looks at the stop word.
    fn most(&self) -> usize {
        (PRODUCTS / self.terms.len()).max(1).next_multiple_of(WIDE)
    }

    fn line(&self, inputs: [&[f32]; 2], base: [usize; 2], still: usize, to: &mut [f32]) {
        let moving = 1 - still;
        let (factors, values) = (&inputs[still][base[still]..], &inputs[moving][base[moving]..]);
        let terms = || self.terms.iter().map(|term| (factors[term[still]], term[moving]));
        // The last element that is read of `values`, but for the output's place.
        let reach = self.terms.iter().map(|term| term[moving]).max().unwrap_or(0);
        widest(
            #[inline(always)]
            || {
                let mut at = 0;
                while at + WIDE <= to.len() {
                    to[at..at + WIDE].copy_from_slice(&sums::<WIDE>(&values[at..], terms()));
                    at += WIDE;
                }
                while at < to.len() {
                    let len = NARROW.min(to.len() - at);
                    let values = &values[at..];
                    let to = &mut to[at..at + len];
                    // Sums beyond the line are made and forgotten, where there is something to read for them.
                    match reach + NARROW <= values.len() {
                        true => to.copy_from_slice(&sums::<NARROW>(values, terms())[..len]),
                        false => to.iter_mut().enumerate().for_each(|(i, to)| {
                            *to = sums::<1>(&values[i..], terms())[0];
                        }),
                    }
                    at += len;
                }
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

/// `N` outputs side by side: for each term a factor, and where its values begin.
#[inline(always)]
fn sums<const N: usize>(values: &[f32], terms: impl Iterator<Item = (f32, usize)>) -> [f32; N] {
    let mut sums = [0.0; N];
    for (factor, at) in terms {
        let values: &[f32; N] = values[at..at + N].try_into().expect("as many");
        for (sum, x) in sums.iter_mut().zip(values) {
            *sum += factor * x;
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
