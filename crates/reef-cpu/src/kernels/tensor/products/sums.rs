//! Sums of products of singles that are not matrices, by vectors: convolutions of single channels,
//! and products of a matrix and a single row.
//!
//! Either one factor is the same for a line of outputs and the others lie evenly apart, or the
//! terms of one output lie in one piece in both inputs.

#[cfg(target_arch = "x86_64")]
use super::lines as vectors;
use super::plain::{NARROW, WIDE, dot, sums};
use super::window::{LINES, Window};
use crate::kernels::blocks::stop_token::StopToken;
use crate::kernels::tensor::formulas::finish;
use crate::kernels::values::simd::widest;
use reef_op::tensor::{TensorOp, View};

/// Most lines: a table of them is kept.
const LINES_OF_ALL: usize = 1 << 20;
/// Products between two polls of the stop word.
const PRODUCTS: usize = 64 * 1024;
/// Most terms of a sum: tables of them are kept.
const TERMS: usize = 1 << 16;

/// Order in which sums are made.
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
    /// Index of the input that comes first below.
    order: [usize; 2],
    /// Start of the factors and values of each line's first output, in both inputs.
    lines: Vec<[usize; 2]>,
    /// Distance to those of the next output.
    steps: [usize; 2],
    /// Outputs along the last axis.
    line: usize,
    /// Place of the factors of each term: first the one that is the same for a line, if one is.
    terms: Vec<[usize; 2]>,
    /// The largest of both.
    reach: [usize; 2],
    /// The terms as a window, if they see one.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only vectors look"))]
    window: Option<Window>,
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
        let line = contract.kept[0].dims.last().copied().unwrap_or(1);
        let outputs = contract.kept[0].len();
        if line == 0 || outputs / line > LINES_OF_ALL {
            return None;
        }
        let order = match shape {
            Shape::Line { still, .. } => [still, 1 - still],
            Shape::Dot => [0, 1],
        };
        let [a, b] = order.map(|k| places(&contract.summed[k], count));
        let terms: Vec<[usize; 2]> = a.into_iter().zip(b).map(|(a, b)| [a, b]).collect();
        let start = |k: usize| order.map(|input| contract.kept[input].offset(k * line));
        Some(Self {
            shape,
            order,
            lines: (0..outputs / line).map(start).collect(),
            steps: order.map(|input| contract.kept[input].step()),
            line,
            reach: [0, 1].map(|k| terms.iter().map(|term| term[k]).max().unwrap_or(0)),
            window: Window::of(&terms),
            terms,
        })
    }

    /// The outputs from `first` on; false if the block was stopped.
    pub(in crate::kernels::tensor) fn compute(
        &self,
        inputs: [&[f32]; 2],
        first: usize,
        to: &mut [f32],
        stop: StopToken<'_>,
    ) -> bool {
        let inputs = self.order.map(|input| inputs[input]);
        let (mut at, end) = (0, to.len());
        while at < end {
            if stop.is_set() {
                return false;
            }
            let (number, place) = ((first + at) / self.line, (first + at) % self.line);
            let run = (self.line - place).min(end - at).min(self.outputs_per_poll());
            let count = if run == self.line { self.like(number, end - at) } else { 1 };
            let lines = &self.lines[number..number + count];
            let to = &mut to[at..at + count * run];
            match self.shape {
                Shape::Line { step: 1, .. } => self.values(inputs, lines, place, to),
                Shape::Line { step, .. } => {
                    for (line, to) in lines.iter().zip(to.chunks_exact_mut(run)) {
                        self.apart(inputs, [line[0], line[1] + place * step], step, to);
                    }
                }
                Shape::Dot => {
                    for (line, to) in lines.iter().zip(to.chunks_exact_mut(run)) {
                        self.dots(inputs, [0, 1].map(|k| line[k] + place * self.steps[k]), to);
                    }
                }
            }
            at += count * run;
        }
        !stop.is_set()
    }

    /// Number of outputs of a block: at most `most`, and whole lines if there is room for one.
    pub(in crate::kernels::tensor) fn outputs(&self, most: usize) -> usize {
        if most < self.line { most } else { most / self.line * self.line }
    }

    /// Outputs between two polls of the stop word.
    fn outputs_per_poll(&self) -> usize {
        (PRODUCTS / self.terms.len()).max(1).next_multiple_of(WIDE)
    }

    /// Number of lines from this one on that have the same factors, with at most `left` outputs,
    /// and at most [`LINES`].
    fn like(&self, line: usize, left: usize) -> usize {
        let most = (left.min(self.outputs_per_poll()) / self.line).clamp(1, LINES);
        let lines = self.lines[line..].iter().take(most);
        lines.take_while(|like| like[0] == self.lines[line][0]).count()
    }

    /// Lines that have the same factors, from output `place` of theirs on: values lie side by side.
    fn values(
        &self,
        [factors, values]: [&[f32]; 2],
        lines: &[[usize; 2]],
        place: usize,
        to: &mut [f32],
    ) {
        let factors = &factors[lines[0][0]..];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            let Self { terms, reach, window, .. } = self;
            let line = vectors::Line { factors, values, terms, reach: *reach, window: *window };
            let starts: [usize; LINES] =
                std::array::from_fn(|k| lines.get(k).map_or(0, |line| line[1] + place));
            // SAFETY: the machine has AVX-512.
            return unsafe { vectors::lines(&line, &starts[..lines.len()], to) };
        }
        let len = to.len() / lines.len();
        for (line, to) in lines.iter().zip(to.chunks_exact_mut(len)) {
            self.one(factors, &values[line[1] + place..], to);
        }
    }

    fn one(&self, factors: &[f32], values: &[f32], to: &mut [f32]) {
        let terms = || self.terms.iter().map(|term| (factors[term[0]], term[1]));
        widest(
            #[inline(always)]
            || {
                let mut at = 0;
                while at < to.len() {
                    let (values, to) = (&values[at..], &mut to[at..]);
                    // Sums beyond the line are made and forgotten, where there is something to read
                    // for them.
                    let room = values.len().saturating_sub(self.reach[1]);
                    at += if to.len() >= WIDE {
                        to[..WIDE].copy_from_slice(&sums::<WIDE>(values, terms()));
                        WIDE
                    } else if room >= NARROW {
                        let len = NARROW.min(to.len());
                        to[..len].copy_from_slice(&sums::<NARROW>(values, terms())[..len]);
                        len
                    } else {
                        to[..1].copy_from_slice(&sums::<1>(values, terms()));
                        1
                    };
                }
            },
        );
    }

    /// Like [`values`](Self::values), of one line whose values are `step` elements apart.
    fn apart(&self, [factors, values]: [&[f32]; 2], base: [usize; 2], step: usize, to: &mut [f32]) {
        let (factors, values) = (&factors[base[0]..], &values[base[1]..]);
        to.fill(0.0);
        for term in &self.terms {
            let (factor, values) = (factors[term[0]], &values[term[1]..]);
            for (to, x) in to.iter_mut().zip(values.iter().step_by(step)) {
                *to += factor * x;
            }
        }
    }

    fn dots(&self, inputs: [&[f32]; 2], base: [usize; 2], to: &mut [f32]) {
        let len = self.terms.len();
        for (i, to) in to.iter_mut().enumerate() {
            let [a, b] = [0, 1].map(|k| &inputs[k][base[k] + i * self.steps[k]..][..len]);
            *to = dot(a, b);
        }
    }
}

/// Place of each element.
fn places(view: &View, count: usize) -> Vec<usize> {
    let step = view.step();
    view.runs(0, count).flat_map(|(start, run)| (0..run).map(move |i| start + i * step)).collect()
}
