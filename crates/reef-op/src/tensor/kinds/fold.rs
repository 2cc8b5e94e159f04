//! Many elements as one.

use super::formula::{larger, smaller};
use super::job::{Job, Outputs, TILE, with_domain};
use crate::tensor::element::Domain;
use crate::tensor::number::Number;
use crate::tensor::spec::Spec;
use crate::tensor::view::View;
use reef_core::{Error, Result};

/// Result of a fold of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum FoldKind {
    /// Their sum; 0 of none.
    Sum,
    /// The sum of their magnitudes.
    SumAbs,
    /// The sum of their squares.
    SumSquares,
    /// Their product; 1 of none.
    Product,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// Index of the largest: the first of equals, or the last.
    ArgMax {
        /// The last of equals.
        last: bool,
    },
    /// Index of the smallest.
    ArgMin {
        /// The last of equals.
        last: bool,
    },
}

/// `output[i] = kind of input[kept(i) + folded(j)] for all j`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Fold {
    /// Kind of the fold.
    pub kind: FoldKind,
    /// Type of the numbers that it computes with.
    pub domain: Domain,
    /// Position at which each output's elements begin.
    pub kept: View,
    /// Elements that belong to it, in order.
    pub folded: View,
}

impl Fold {
    pub(crate) fn check(&self, inputs: &[Spec], output: &Spec) -> Result<()> {
        let [input] = inputs else {
            return Err(Error::invalid("fold", format!("must have 1 input, got {}", inputs.len())));
        };
        self.kept.then(&self.folded).check(input.elements())?;
        if self.kept.len() == output.elements() {
            return Ok(());
        }
        Err(Error::invalid("fold", format!("{:?} cannot make {output}", self.kept.dims)))
    }

    pub(crate) fn compute(&self, job: Job<'_>) -> Outputs {
        with_domain!(self.domain, T => self.run::<T>(job))
    }

    fn run<T: Number>(&self, mut job: Job<'_>) -> Outputs {
        let (kept, folded) = (self.kept.merged(), self.folded.merged());
        let len = folded.len();
        let mut tile = vec![T::default(); TILE.min(len)];
        for i in job.range.clone() {
            let base = kept.offset(i);
            let mut sum = Partial::new(self.kind);
            for first in (0..len).step_by(TILE) {
                if job.stopped() {
                    return None;
                }
                let tile = &mut tile[..TILE.min(len - first)];
                folded.load(&job.inputs[0], base, first, tile);
                sum.add(self.kind, first, tile);
            }
            job.push(&[sum.finish(self.kind)]);
        }
        Some(job.output)
    }
}

/// Fold of some of the elements.
struct Partial<T> {
    value: T,
    place: usize,
    empty: bool,
}

impl<T: Number> Partial<T> {
    fn new(kind: FoldKind) -> Self {
        let value = match kind {
            FoldKind::Product => T::of_i64(1),
            FoldKind::Max | FoldKind::ArgMax { .. } => T::MIN_VALUE,
            FoldKind::Min | FoldKind::ArgMin { .. } => T::MAX_VALUE,
            _ => T::default(),
        };
        Self { value, place: 0, empty: true }
    }

    /// Adds elements, the first of which is number `first`.
    fn add(&mut self, kind: FoldKind, first: usize, tile: &[T]) {
        let zero = T::default();
        let each = |start: T, step: fn(T, T) -> T| tile.iter().fold(start, |sum, &x| step(sum, x));
        self.value = match kind {
            FoldKind::Sum => each(self.value, T::add),
            FoldKind::SumAbs => tile
                .iter()
                .fold(self.value, |sum, &x| sum.add(if x < zero { zero.sub(x) } else { x })),
            FoldKind::SumSquares => each(self.value, |sum, x| sum.add(x.mul(x))),
            FoldKind::Product => each(self.value, T::mul),
            FoldKind::Max => each(self.value, larger),
            FoldKind::Min => each(self.value, smaller),
            FoldKind::ArgMax { last } => {
                return self.seek(first, tile, |x, best| x > best || last && x == best);
            }
            FoldKind::ArgMin { last } => {
                return self.seek(first, tile, |x, best| x < best || last && x == best);
            }
        };
    }

    fn seek(&mut self, first: usize, tile: &[T], better: impl Fn(T, T) -> bool) {
        for (i, &x) in tile.iter().enumerate() {
            if self.empty || better(x, self.value) {
                (self.value, self.place, self.empty) = (x, first + i, false);
            }
        }
    }

    fn finish(&self, kind: FoldKind) -> T {
        match kind {
            FoldKind::ArgMax { .. } | FoldKind::ArgMin { .. } => T::of_i64(self.place as i64),
            _ => self.value,
        }
    }
}
