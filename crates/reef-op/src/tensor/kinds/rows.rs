//! Operations on whole rows: running sums, and the largest elements.

use super::job::{Job, Outputs, TILE, with_domain};
use crate::tensor::element::Domain;
use crate::tensor::number::Number;
use crate::tensor::spec::Spec;
use crate::tensor::view::View;
use reef_core::{Error, Result};
use std::cmp::Ordering;

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
            T::load(&job.inputs[0], first / self.k * self.len, 1, &mut row);
            let best = self.best(&row, &job)?;
            if self.places {
                job.push(&best.iter().map(|&place| place as i64).collect::<Vec<_>>());
            } else {
                job.push(&best.iter().map(|&place| row[place]).collect::<Vec<_>>());
            }
        }
        Some(job.output)
    }

    /// Places of the best, the best first; `None` if the job was stopped.
    fn best<T: Number>(&self, row: &[T], job: &Job<'_>) -> Option<Vec<usize>> {
        // NaN is above all numbers, as in numpy: sorting panics without a total order.
        let is_nan = |place: usize| row[place].partial_cmp(&row[place]).is_none();
        let order = |&a: &usize, &b: &usize| {
            let by_value = row[a].partial_cmp(&row[b]);
            let by_value = by_value.unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)));
            let by_value = if self.largest { by_value.reverse() } else { by_value };
            by_value.then(a.cmp(&b))
        };
        let mut places = sorted((0..self.len).collect(), order, || job.stopped())?;
        places.truncate(self.k);
        Some(places)
    }
}

/// A list in order; `None` if `stop` says so, which is asked for each part that is sorted and each
/// two that become one.
fn sorted(
    mut list: Vec<usize>,
    order: impl Fn(&usize, &usize) -> Ordering,
    stop: impl Fn() -> bool,
) -> Option<Vec<usize>> {
    for part in list.chunks_mut(TILE) {
        if stop() {
            return None;
        }
        part.sort_by(&order);
    }
    let mut len = TILE;
    while len < list.len() {
        let mut merged = Vec::with_capacity(list.len());
        for two in list.chunks(2 * len) {
            if stop() {
                return None;
            }
            merge(two.split_at(len.min(two.len())), &order, &mut merged);
        }
        (list, len) = (merged, 2 * len);
    }
    Some(list)
}

/// Appends two lists, each in order, as one.
fn merge(
    lists: (&[usize], &[usize]),
    order: impl Fn(&usize, &usize) -> Ordering,
    to: &mut Vec<usize>,
) {
    let (mut a, mut b) = lists;
    while let ([first, rest @ ..], [other, others @ ..]) = (a, b) {
        if order(first, other).is_le() {
            to.push(*first);
            a = rest;
        } else {
            to.push(*other);
            b = others;
        }
    }
    to.extend_from_slice(a);
    to.extend_from_slice(b);
}

#[cfg(test)]
mod tests {
    use crate::tensor::{Array, Element, Kind, Spec, TensorOp, TopK, Values};
    use std::cell::Cell;

    /// The places of the `k` best of `len` numbers.
    fn top(len: usize, k: usize, largest: bool) -> TensorOp {
        TensorOp {
            kind: Kind::TopK(TopK { len, k, largest, places: true }),
            inputs: vec![Spec { element: Element::F32, dims: vec![len] }],
            output: Spec { element: Element::I64, dims: vec![k] },
        }
    }

    fn places(row: &[f32], k: usize, largest: bool) -> Vec<i64> {
        match top(row.len(), k, largest).compute(&[Values::F32(row)], 0..k, &|| false) {
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

    #[test]
    fn row_of_many_parts_is_sorted_unless_it_is_stopped() {
        let row: Vec<f32> = (0..5000).map(|i| (i * 7919 % 613) as f32).collect();
        let mut want: Vec<i64> = (0..5000).collect();
        want.sort_by(|&a, &b| row[b as usize].total_cmp(&row[a as usize]));
        assert_eq!(places(&row, 5000, true), want);
        // Five parts are sorted, which become three, two and one.
        for polls in 1..=12 {
            let asked = Cell::new(0);
            let stop = || {
                asked.set(asked.get() + 1);
                asked.get() == polls
            };
            let op = top(row.len(), 5000, true);
            let made = op.compute(&[Values::F32(&row)], 0..5000, &stop).unwrap();
            assert_eq!(made.is_none(), polls <= 11, "{polls}");
        }
    }
}
