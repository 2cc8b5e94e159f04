//! Operations on whole rows: running sums, and the largest elements.

use super::job::{Job, Outputs, with_domain};
use crate::tensor::element::Domain;
use crate::tensor::number::Number;
use crate::tensor::spec::Spec;
use crate::tensor::view::View;
use reef_core::{Error, Result};

/// Running sums over rows of `len` elements that are `inner` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Scan {
    /// Elements of a row.
    pub len: usize,
    /// Rows that lie in each other.
    pub inner: usize,
    /// Each sum without its own element.
    pub exclusive: bool,
    /// From the last to the first.
    pub reverse: bool,
    /// Type of the numbers that it computes with.
    pub domain: Domain,
}

/// The `k` largest or smallest of rows of `len` elements, the best first, of equals the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TopK {
    /// Elements of a row.
    pub len: usize,
    /// Number of results of a row.
    pub k: usize,
    /// The largest, or else the smallest.
    pub largest: bool,
    /// Gives their places in the row, and not themselves.
    pub places: bool,
}

impl Scan {
    /// Outputs that are computed together.
    pub(crate) fn grain(&self) -> usize {
        self.len * self.inner
    }

    pub(crate) fn check(&self, inputs: &[Spec], output: &Spec) -> Result<()> {
        let grain = self.len.saturating_mul(self.inner);
        let whole = grain > 0 && output.elements().is_multiple_of(grain);
        match inputs {
            [input] if whole && input.elements() == output.elements() => Ok(()),
            _ => Err(Error::invalid("scan", format!("{self:?} cannot make {output}"))),
        }
    }

    pub(crate) fn compute(&self, job: Job<'_>) -> Outputs {
        with_domain!(self.domain, T => self.run::<T>(job))
    }

    fn run<T: Number>(&self, mut job: Job<'_>) -> Outputs {
        let view = View::dense(&[job.inputs[0].len()]);
        let mut rows = vec![T::default(); self.grain()];
        for first in job.range.clone().step_by(self.grain()) {
            if job.stopped() {
                return None;
            }
            job.load(0, &view, first, &mut rows);
            (0..self.inner).for_each(|row| self.row(&mut rows[row..]));
            job.push(&rows);
        }
        Some(job.output)
    }

    fn row<T: Number>(&self, row: &mut [T]) {
        let mut sum = T::default();
        for i in 0..self.len {
            let i = if self.reverse { self.len - 1 - i } else { i };
            let element = &mut row[i * self.inner];
            let with = sum.add(*element);
            *element = if self.exclusive { sum } else { with };
            sum = with;
        }
    }
}

impl TopK {
    pub(crate) fn check(&self, inputs: &[Spec], output: &Spec) -> Result<()> {
        let sound = self.len > 0 && (1..=self.len).contains(&self.k);
        match inputs {
            [input]
                if sound
                    && input.elements().is_multiple_of(self.len)
                    && input.elements() / self.len * self.k == output.elements() =>
            {
                Ok(())
            }
            _ => Err(Error::invalid("top", format!("{self:?} cannot make {output}"))),
        }
    }

    pub(crate) fn compute(&self, job: Job<'_>, input: &Spec) -> Outputs {
        with_domain!(input.element.domain(), T => self.run::<T>(job))
    }

    fn run<T: Number>(&self, mut job: Job<'_>) -> Outputs {
        let mut row = vec![T::default(); self.len];
        for first in job.range.clone().step_by(self.k) {
            if job.stopped() {
                return None;
            }
            T::load(&job.inputs[0], first / self.k * self.len, 1, &mut row);
            let best = self.best(&row);
            if self.places {
                job.push(&best.iter().map(|&place| place as i64).collect::<Vec<_>>());
            } else {
                job.push(&best.iter().map(|&place| row[place]).collect::<Vec<_>>());
            }
        }
        Some(job.output)
    }

    /// Places of the best, the best first.
    fn best<T: Number>(&self, row: &[T]) -> Vec<usize> {
        // NaN is above all numbers, as in numpy: sorting panics without a total order.
        let is_nan = |place: usize| row[place].partial_cmp(&row[place]).is_none();
        let order = |&a: &usize, &b: &usize| {
            let by_value = row[a].partial_cmp(&row[b]);
            let by_value = by_value.unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)));
            let by_value = if self.largest { by_value.reverse() } else { by_value };
            by_value.then(a.cmp(&b))
        };
        let mut places: Vec<usize> = (0..self.len).collect();
        places.sort_by(order);
        places.truncate(self.k);
        places
    }
}

#[cfg(test)]
mod tests {
    use crate::tensor::{Array, Element, Kind, Spec, TensorOp, TopK, Values};

    /// The places of the `k` best of these.
    fn places(row: &[f32], k: usize, largest: bool) -> Vec<i64> {
        let op = TensorOp {
            kind: Kind::TopK(TopK { len: row.len(), k, largest, places: true }),
            inputs: vec![Spec { element: Element::F32, dims: vec![row.len()] }],
            output: Spec { element: Element::I64, dims: vec![k] },
        };
        match op.compute(&[Values::F32(row)], 0..k, &|| false) {
            Ok(Some(Array::I64(places))) => places,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nan_is_larger_than_all_numbers() {
        let row = [1.0, f32::NAN, 3.0, -f32::NAN, f32::INFINITY];
        assert_eq!(places(&row, 4, true), [1, 3, 4, 2]);
        assert_eq!(places(&row, 4, false), [0, 2, 4, 1]);
    }

    #[test]
    fn rows_with_many_nans_have_an_order() {
        let value =
            |i: usize| if i.is_multiple_of(3) { f32::NAN } else { (i * 7919 % 1009) as f32 };
        let row: Vec<f32> = (0..1000).map(value).collect();
        let mut all = places(&row, 1000, true);
        assert!(all[..334].iter().all(|&place| place % 3 == 0));
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
    }
}
