//! Operations on a row of scores before and in its softmax.

use crate::kernels::tensor::formulas::folds::{LANES, combine_lanes, gather};
use crate::kernels::values::functions::exp;
use crate::kernels::values::scalar::larger;
use crate::kernels::values::simd::widest;
use reef_op::tensor::{ScoreStep, Truth, Values};

/// State of a row of the softmax.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    /// The largest score so far.
    largest: f32,
    /// The sum of powers of scores below that.
    sum: f32,
}

impl State {
    pub(super) const EMPTY: Self = Self { largest: f32::NEG_INFINITY, sum: 0.0 };

    /// Makes weights of scores that come next, and gives what those before have to be multiplied
    /// by.
    pub(super) fn take(&mut self, scores: &mut [f32]) -> f32 {
        let mut lanes = [f32::NEG_INFINITY; LANES];
        gather(&mut lanes, scores, larger);
        let largest = larger(self.largest, combine_lanes(lanes, larger));
        // Below the least score nothing has a weight: `-inf` less itself would be no number.
        let shift = if largest == f32::NEG_INFINITY { 0.0 } else { largest };
        let before = if self.largest == largest { 1.0 } else { exp(self.largest - shift) };
        self.sum = self.sum * before + powers(scores, shift);
        self.largest = largest;
        before
    }

    /// Divides a row's products with values by the sum of its weights.
    pub(super) fn finish(self, row: &mut [f32], none_is_zero: bool) {
        let none = self.sum.is_nan() || self.largest == f32::NEG_INFINITY;
        if none && none_is_zero {
            row.fill(0.0);
        } else {
            row.iter_mut().for_each(|x| *x /= self.sum);
        }
    }
}

/// Replaces scores by powers of what they are above `shift`, and gives the sum of those.
fn powers(scores: &mut [f32], shift: f32) -> f32 {
    widest(
        #[inline(always)]
        || {
            for score in &mut *scores {
                *score = exp(*score - shift);
            }
        },
    );
    let mut lanes = [0.0; LANES];
    gather(&mut lanes, scores, |sum, x| sum + x);
    combine_lanes(lanes, |sum, x| sum + x)
}

/// Makes a step of scores. `first` is where what it reads of the first of them lies, and `stride`
/// how far apart.
pub(super) fn change(
    scores: &mut [f32],
    step: &ScoreStep,
    read: Option<(&Values<'_>, usize, usize)>,
) {
    match (step, read) {
        (ScoreStep::Scale(factor), _) => widest(
            #[inline(always)]
            || scores.iter_mut().for_each(|score| *score *= factor),
        ),
        (ScoreStep::Add(_), Some((Values::F32(added), first, stride))) => {
            each(scores, &added[first..], stride, |score, added| score + added);
        }
        (ScoreStep::Choose { keep, other, .. }, Some((Values::Bool(which), first, stride))) => {
            each(scores, &which[first..], stride, |score, which: Truth| {
                if (which.0 != 0) == *keep { score } else { *other }
            });
        }
        _ => unreachable!("{step:?} reads what was checked"),
    }
}

/// Replaces each score by a function of it and of an element, which lie so far apart.
fn each<T: Copy>(scores: &mut [f32], read: &[T], stride: usize, function: impl Fn(f32, T) -> f32) {
    widest(
        #[inline(always)]
        || match stride {
            1 => {
                for (score, &x) in scores.iter_mut().zip(read) {
                    *score = function(*score, x);
                }
            }
            _ => scores
                .iter_mut()
                .enumerate()
                .for_each(|(i, score)| *score = function(*score, read[i * stride])),
        },
    );
}
