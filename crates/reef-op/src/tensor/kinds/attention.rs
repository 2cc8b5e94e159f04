//! Attention: rows of values, weighted by how well their keys fit a query.
//!
//! Scaled dot-product attention is Vaswani et al., "Attention is all you need", 2017. Devices may
//! make the softmax while keys go by (Milakov and Gimelshein, "Online normalizer calculation for
//! softmax", 2018), and so never have all scores in memory (Dao et al., "FlashAttention", 2022).

use super::formula::larger;
use super::job::{Job, Outputs};
use crate::tensor::array::Values;
use crate::tensor::element::Element;
use crate::tensor::spec::Spec;
use crate::tensor::stored::Stored as _;
use crate::tensor::view::{Placed, View};
use reef_core::{Error, Result};
use std::borrow::Cow;

/// `output[r, j] = sum over i of p[r, i] * v[r, i, j]`, for each output row `r`, with
///
/// - `p[r, ..] = softmax of s[r, ..]`: `exp(s - largest) / sum of those`, `largest` being the
///   row's;
/// - `s[r, i]`: `sum over t of q[r, t] * k[r, i, t]`, after each of the [`scores`](Self::scores)
///   steps.
///
/// The output is dense, with a row of `width` elements for each `r`. All numbers are singles,
/// except conditions. Inputs are those of `queries`, `keys`, `values`, and then one for each step
/// that reads one, in order. Rounding is free, but NaN follows these formulas: a row all of whose
/// scores are `-inf` is NaN, and so is one with a score of `inf` or NaN.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Attention {
    /// `q`, of the rows' sizes and then `depth`.
    pub queries: Placed,
    /// `k`, of the rows' sizes, then the number of keys, and `depth`. Strides are 0 along rows that
    /// share keys.
    pub keys: Placed,
    /// `v`, of the rows' sizes, then the number of keys, and `width`.
    pub values: Placed,
    /// Steps that each score goes through, in order.
    pub scores: Vec<ScoreStep>,
    /// A row that would be NaN is 0 instead.
    pub none_is_zero: bool,
}

/// One step that a score goes through. Views have the rows' sizes and then the number of keys.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ScoreStep {
    /// It is multiplied.
    Scale(f32),
    /// An element of the next input, which is singles, is added: a bias, or a mask of 0 and `-inf`.
    Add(View),
    /// It stays where an element of the next input, which is truth values, is `keep`, and else
    /// becomes `other`.
    Choose {
        /// View of the condition.
        view: View,
        /// Value of the condition where scores stay.
        keep: bool,
        /// Value of the other scores.
        other: f32,
    },
}

impl ScoreStep {
    /// Returns the view that it reads, and its element type.
    pub fn reads(&self) -> Option<(&View, Element)> {
        match self {
            Self::Scale(_) => None,
            Self::Add(view) => Some((view, Element::F32)),
            Self::Choose { view, .. } => Some((view, Element::Bool)),
        }
    }
}

impl Attention {
    /// Sizes of the rows.
    pub fn rows(&self) -> &[usize] {
        let dims = &self.queries.view.dims;
        &dims[..dims.len().saturating_sub(1)]
    }

    /// Returns the number of keys, and of the elements of a key and of a value.
    pub fn sizes(&self) -> [usize; 3] {
        let last = |view: &View, back: usize| {
            view.dims.len().checked_sub(back).map_or(0, |axis| view.dims[axis])
        };
        [last(&self.keys.view, 2), last(&self.keys.view, 1), last(&self.values.view, 1)]
    }

    pub(crate) fn check(&self, inputs: &[Spec], output: &Spec) -> Result<()> {
        let refused =
            || Error::invalid("attention", format!("{self:?} cannot make {output} of {inputs:?}"));
        let (rows, [keys, depth, width]) = (self.rows(), self.sizes());
        let of_rows =
            |view: &View, last: &[usize]| *view.dims == *[rows, last].concat() && !view.is_empty();
        let sizes = of_rows(&self.queries.view, &[depth])
            && of_rows(&self.keys.view, &[keys, depth])
            && of_rows(&self.values.view, &[keys, width])
            && View::dense(&[rows, &[width]].concat()).len() == output.elements();
        let read: Vec<_> = self.scores.iter().filter_map(ScoreStep::reads).collect();
        let stored = |spec: &Spec| matches!(spec.element, Element::F32 | Element::F16);
        if !sizes
            || inputs.len() != 3 + read.len()
            || !inputs.iter().take(3).chain([output]).all(stored)
        {
            return Err(refused());
        }
        for (placed, input) in [&self.queries, &self.keys, &self.values].into_iter().zip(inputs) {
            placed.check(input.elements())?;
        }
        for ((view, element), input) in read.into_iter().zip(&inputs[3..]) {
            view.check(input.elements())?;
            if !of_rows(view, &[keys]) || input.element != element {
                return Err(refused());
            }
        }
        Ok(())
    }

    /// Outputs that are computed together: a row.
    pub(crate) fn grain(&self) -> usize {
        self.sizes()[2]
    }

    /// Steps of a loop for one output.
    pub(crate) fn cost(&self) -> usize {
        let [keys, depth, width] = self.sizes();
        (depth + width + 16).saturating_mul(keys) / width.max(1)
    }

    pub(crate) fn compute(&self, mut job: Job<'_>) -> Outputs {
        let sides = [0, 1, 2].map(|input| singles(&job.inputs[input]));
        let [q, k, v] = sides.each_ref().map(|side| &side[..]);
        let [keys, depth, width] = self.sizes();
        let mut scores = vec![0.0f32; keys];
        for first in job.range.clone().step_by(width) {
            let row = first / width;
            for (i, score) in scores.iter_mut().enumerate() {
                if job.stopped() {
                    return None;
                }
                let term = |t| {
                    let (a, b) = (row * depth + t, (row * keys + i) * depth + t);
                    f64::from(q[self.queries.at(a)]) * f64::from(k[self.keys.at(b)])
                };
                *score = self.after_steps(
                    (0..depth).map(term).sum::<f64>() as f32,
                    row * keys + i,
                    &job,
                );
            }
            let sum = self.weigh(&mut scores);
            let mut made = vec![0.0f64; width];
            for (i, &p) in scores.iter().enumerate() {
                if job.stopped() {
                    return None;
                }
                for (j, made) in made.iter_mut().enumerate() {
                    *made +=
                        f64::from(p) * f64::from(v[self.values.at((row * keys + i) * width + j)]);
                }
            }
            let none = self.none_is_zero && sum.is_nan();
            let made: Vec<f32> = made.iter().map(|&x| if none { 0.0 } else { x as f32 }).collect();
            job.push(&made);
        }
        Some(job.output)
    }

    /// Returns a score after all steps; it is number `at` of all.
    fn after_steps(&self, score: f32, at: usize, job: &Job<'_>) -> f32 {
        let mut inputs = job.inputs[3..].iter();
        let mut read = |view: &View| inputs.next().map(|input| (input, view.offset(at)));
        self.scores.iter().fold(score, |score, step| match step {
            ScoreStep::Scale(factor) => score * factor,
            ScoreStep::Add(view) => match read(view) {
                Some((Values::F32(added), place)) => score + added[place],
                _ => unreachable!("it was checked"),
            },
            ScoreStep::Choose { view, keep, other } => match read(view) {
                Some((Values::Bool(which), place)) if (which[place].0 != 0) == *keep => score,
                _ => *other,
            },
        })
    }

    /// Makes weights of a row's scores; returns the sum that they were divided by.
    fn weigh(&self, scores: &mut [f32]) -> f32 {
        let largest = scores.iter().copied().fold(f32::NEG_INFINITY, larger);
        let powers = scores.iter().map(|&score| f64::from(score - largest).exp());
        let sum = powers.sum::<f64>() as f32;
        scores.iter_mut().for_each(|score| *score = (*score - largest).exp() / sum);
        sum
    }
}

/// Values, which are stored as singles or halves, as singles.
fn singles<'a>(values: &Values<'a>) -> Cow<'a, [f32]> {
    match *values {
        Values::F32(values) => Cow::Borrowed(values),
        Values::F16(values) => values.iter().map(|half| half.to_f32()).collect(),
        _ => unreachable!("it was checked"),
    }
}

#[cfg(test)]
mod tests;
