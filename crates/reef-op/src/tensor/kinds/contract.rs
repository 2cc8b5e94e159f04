//! Sums of products: matrix products, convolutions and the like.

use super::job::{Job, Outputs, TILE, with_domain};
use crate::tensor::array::Values;
use crate::tensor::element::Domain;
use crate::tensor::number::Number;
use crate::tensor::spec::Spec;
use crate::tensor::view::View;
use reef_core::{Error, Result};
use std::borrow::Cow;

/// `output[i] = sum over j of a[kept_a(i) + summed_a(j)] * b[kept_b(i) + summed_b(j)]`.
///
/// Sums are made in the order of `j`, in the domain.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Contract {
    /// Type of the numbers that it computes with.
    pub domain: Domain,
    /// Positions at which each output's factors begin in both inputs; the sizes of the two are
    /// equal.
    pub kept: [View; 2],
    /// Positions of the factors of one sum.
    pub summed: [View; 2],
}

/// Products between two checks whether to stop.
const PRODUCTS: usize = 16 * 1024;

impl Contract {
    pub(crate) fn check(&self, inputs: &[Spec], output: &Spec) -> Result<()> {
        if inputs.len() != 2 {
            return Err(Error::invalid(
                "contraction",
                format!("must have 2 inputs, got {}", inputs.len()),
            ));
        }
        for (k, input) in inputs.iter().enumerate() {
            self.kept[k].then(&self.summed[k]).check(input.elements())?;
        }
        let same = |views: &[View; 2]| views[0].dims == views[1].dims;
        let fits =
            same(&self.kept) && same(&self.summed) && self.kept[0].len() == output.elements();
        if fits {
            return Ok(());
        }
        Err(Error::invalid("contraction", format!("{self:?} cannot make {output}")))
    }

    pub(crate) fn compute(&self, job: Job<'_>) -> Outputs {
        with_domain!(self.domain, T => self.run::<T>(job))
    }

    fn run<T: Number>(&self, mut job: Job<'_>) -> Outputs {
        let [a, b] = [0, 1].map(|input| numbers::<T>(&job.inputs[input]));
        let terms: Vec<[usize; 2]> = pairs(&self.summed, 0, self.summed[0].len()).collect();
        let row = self.kept[0].dims.last().copied().unwrap_or(1);
        let mut sums = vec![T::default(); row.min(TILE).min(job.range.len())];
        let mut at = job.range.start;
        while at < job.range.end {
            let run = (row - at % row).min(job.range.end - at).min(TILE);
            let sums = &mut sums[..run];
            let base = [0, 1].map(|k| self.kept[k].offset(at));
            let dot = is_dot(&self.kept, &self.summed);
            let done = if dot {
                self.dots(&a, &b, base, sums, &job)
            } else {
                self.rows(&a, &b, base, &terms, sums, &job)
            };
            if !done {
                return None;
            }
            job.push(sums);
            at += run;
        }
        Some(job.output)
    }

    /// Adds a product to each sum of a row, one term after the other.
    fn rows<T: Number>(
        &self,
        a: &[T],
        b: &[T],
        base: [usize; 2],
        terms: &[[usize; 2]],
        sums: &mut [T],
        job: &Job<'_>,
    ) -> bool {
        let steps = [0, 1].map(|k| self.kept[k].step());
        sums.fill(T::default());
        for some in terms.chunks((PRODUCTS / sums.len()).max(1)) {
            if job.stopped() {
                return false;
            }
            for &[term_a, term_b] in some {
                let (a, b) = (&a[base[0] + term_a..], &b[base[1] + term_b..]);
                add_products(sums, a, b, steps);
            }
        }
        true
    }

    /// Makes one sum after the other, where terms adjoin in both inputs.
    fn dots<T: Number>(
        &self,
        a: &[T],
        b: &[T],
        base: [usize; 2],
        sums: &mut [T],
        job: &Job<'_>,
    ) -> bool {
        let [step_a, step_b] = [0, 1].map(|k| self.kept[k].step());
        let len = self.summed[0].len();
        for (i, sum) in sums.iter_mut().enumerate() {
            let (a, b) = (&a[base[0] + i * step_a..][..len], &b[base[1] + i * step_b..][..len]);
            *sum = T::default();
            for (a, b) in a.chunks(PRODUCTS).zip(b.chunks(PRODUCTS)) {
                if job.stopped() {
                    return false;
                }
                *sum = sum.add(dot(a, b));
            }
        }
        true
    }
}

/// Returns whether the factors of a sum lie in one piece in both inputs, and those of neighbouring
/// outputs don't.
fn is_dot(kept: &[View; 2], summed: &[View; 2]) -> bool {
    let in_one = |view: &View| {
        view.len() > 1 && view.merged() == View { dims: vec![view.len()], strides: vec![1] }
    };
    summed.iter().all(in_one) && kept.iter().all(|view| view.step() != 1)
}

/// All of an input as numbers, without a copy if it is stored as such.
fn numbers<'a, T: Number>(values: &Values<'a>) -> Cow<'a, [T]> {
    if let Some(direct) = T::direct(values) {
        return Cow::Borrowed(direct);
    }
    let mut numbers = vec![T::default(); values.len()];
    T::load(values, 0, 1, &mut numbers);
    Cow::Owned(numbers)
}

/// Positions of elements in two views of equal sizes.
fn pairs(views: &[View; 2], first: usize, len: usize) -> impl Iterator<Item = [usize; 2]> {
    let [a, b] = views;
    (first..first + len).map(|i| [a.offset(i), b.offset(i)])
}

/// `sums[i] += a[i * steps[0]] * b[i * steps[1]]`.
fn add_products<T: Number>(sums: &mut [T], a: &[T], b: &[T], steps: [usize; 2]) {
    match steps {
        [0, 1] => add_row(sums, a[0], b),
        [1, 0] => add_row(sums, b[0], a),
        [step_a, step_b] => {
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = sum.add(a[i * step_a].mul(b[i * step_b]));
            }
        }
    }
}

fn add_row<T: Number>(sums: &mut [T], factor: T, row: &[T]) {
    let row = &row[..sums.len()];
    sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum = sum.add(factor.mul(x)));
}

/// Number of partial sums that are made together, so that they fill a vector register.
const LANES: usize = 16;

fn dot<T: Number>(a: &[T], b: &[T]) -> T {
    let mut lanes = [T::default(); LANES];
    let ((wide_a, rest_a), (wide_b, rest_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in wide_a.iter().zip(wide_b) {
        for (lane, (&a, &b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane = lane.add(a.mul(b));
        }
    }
    let rest = rest_a.iter().zip(rest_b).fold(T::default(), |sum, (&a, &b)| sum.add(a.mul(b)));
    lanes.iter().fold(rest, |sum, &lane| sum.add(lane))
}
