//! Gather and scatter, by indices that are known only when an operation runs.
//!
//! Negative ones count from the end. One that is out of range means the nearest that is in range,
//! since a device that runs can't report it.

use super::formula::{larger, smaller};
use super::job::{Job, Outputs, TILE, with_domain};
use crate::tensor::array::Values;
use crate::tensor::element::Domain;
use crate::tensor::number::Number;
use crate::tensor::spec::Spec;
use crate::tensor::view::{View, product};
use reef_core::{Error, Result};
use std::borrow::Cow;

/// Elements that one index, or several that belong together, point at within a tensor of `sizes`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Target {
    /// Tuples of indices, one for each of the first sizes, point at all elements below. Of
    /// `batches` tensors in a row each has tuples of its own, or all have the same.
    Tuples {
        /// Tensors.
        batches: usize,
        /// The tuples serve all of them.
        shared: bool,
        /// Sizes that the indices run over.
        sizes: Vec<usize>,
        /// Elements that a tuple points at.
        inner: usize,
        /// Tuples of a tensor.
        tuples: usize,
    },
    /// Each index stands for the place along one axis, and keeps its own places along all others.
    Along {
        /// Sizes of the tensor that is pointed at.
        dims: Vec<usize>,
        /// Sizes of the tensor of indices.
        indices: Vec<usize>,
        /// The axis.
        axis: usize,
    },
}

/// `output[i] = data[where indices point]`. Inputs: data, indices.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Gather {
    /// Targets of the indices.
    pub target: Target,
}

/// Combination of an element and an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ScatterKind {
    Replace,
    Add,
    Multiply,
    Max,
    Min,
}

/// The data, with updates where indices point, one after the other. Inputs: data, indices, updates.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Scatter {
    /// Targets of the indices.
    pub target: Target,
    /// Combination of the element and the update.
    pub kind: ScatterKind,
    /// Type of the numbers that it computes with.
    pub domain: Domain,
}

impl Target {
    /// Elements of the data, of the indices, and of what they point at in all.
    fn lens(&self) -> [usize; 3] {
        match self {
            Self::Tuples { batches, shared, sizes, inner, tuples } => [
                product(sizes).saturating_mul(*inner).saturating_mul(*batches),
                sizes.len().saturating_mul(*tuples).saturating_mul(if *shared {
                    1
                } else {
                    *batches
                }),
                batches.saturating_mul(*tuples).saturating_mul(*inner),
            ],
            Self::Along { dims, indices, .. } => {
                [product(dims), product(indices), product(indices)]
            }
        }
    }

    fn check(&self, lens: [usize; 3]) -> Result<()> {
        let sound = match self {
            Self::Tuples { inner, .. } => *inner > 0,
            Self::Along { dims, indices, axis } => {
                let within = |k: usize| k == *axis || indices[k] <= dims[k];
                dims.len() == indices.len() && *axis < dims.len() && (0..dims.len()).all(within)
            }
        };
        let points = lens[2] == 0 || lens[0] > 0;
        if sound && points && self.lens() == lens {
            return Ok(());
        }
        Err(Error::invalid("indices", format!("{self:?} cannot be of {lens:?} elements")))
    }

    /// Returns the position in the data of element `i` that is pointed at.
    fn place(&self, indices: &[i64], i: usize) -> usize {
        match self {
            Self::Tuples { shared, sizes, inner, tuples, .. } => {
                let (tuple, within) = (i / inner, i % inner);
                let (batch, row) = (tuple / tuples, if *shared { tuple % tuples } else { tuple });
                let tuple = &indices[row * sizes.len()..][..sizes.len()];
                let at = tuple
                    .iter()
                    .zip(sizes)
                    .fold(batch, |at, (&index, &size)| at * size + inside(index, size));
                at * inner + within
            }
            Self::Along { dims, indices: own, axis } => {
                let inner: usize = own[axis + 1..].iter().product();
                let size = own[*axis];
                let (outer, within) = (i / inner / size, i % inner);
                let [outer, within] = [
                    (&own[..*axis], &dims[..*axis], outer),
                    (&own[axis + 1..], &dims[axis + 1..], within),
                ]
                .map(|(own, dims, i)| {
                    View { dims: own.to_vec(), strides: View::dense(dims).strides }.offset(i)
                });
                let below: usize = dims[axis + 1..].iter().product();
                (outer * dims[*axis] + inside(indices[i], dims[*axis])) * below + within
            }
        }
    }
}

/// Indices as signed integers. Each block reads some of them, so those of 64 bits are not copied.
fn whole<'a>(indices: &Values<'a>) -> Cow<'a, [i64]> {
    match *indices {
        Values::I64(indices) => Cow::Borrowed(indices),
        _ => Cow::Owned(indices.to_i64()),
    }
}

/// The nearest place in range; negative indices count from the end.
pub(super) fn inside(index: i64, size: usize) -> usize {
    let from_front = if index < 0 { index.saturating_add(size as i64) } else { index };
    (from_front.max(0) as usize).min(size.saturating_sub(1))
}

impl Gather {
    pub(crate) fn check(&self, inputs: &[Spec], output: &Spec) -> Result<()> {
        let [data, indices] = inputs else {
            return Err(Error::invalid(
                "gather",
                format!("must have 2 inputs, got {}", inputs.len()),
            ));
        };
        if data.element != output.element {
            return Err(Error::invalid("gather", format!("{data} cannot become {output}")));
        }
        self.target.check([data.elements(), indices.elements(), output.elements()])
    }

    pub(crate) fn compute(&self, mut job: Job<'_>) -> Outputs {
        let indices = whole(&job.inputs[1]);
        let domain = job.output.element().domain();
        with_domain!(domain, T => {
            let mut tile = vec![T::default(); TILE];
            for range in job.tiles() {
                if job.stopped() {
                    return None;
                }
                for (to, i) in tile.iter_mut().zip(range.clone()) {
                    T::load(&job.inputs[0], self.target.place(&indices, i), 0, std::slice::from_mut(to));
                }
                job.push(&tile[..range.len()]);
            }
        });
        Some(job.output)
    }
}

impl Scatter {
    pub(crate) fn check(&self, inputs: &[Spec], output: &Spec) -> Result<()> {
        let [data, indices, updates] = inputs else {
            return Err(Error::invalid(
                "scatter",
                format!("must have 3 inputs, got {}", inputs.len()),
            ));
        };
        if data.elements() != output.elements() {
            return Err(Error::invalid("scatter", format!("{data} cannot become {output}")));
        }
        self.target.check([data.elements(), indices.elements(), updates.elements()])
    }

    pub(crate) fn compute(&self, job: Job<'_>) -> Outputs {
        with_domain!(self.domain, T => self.run::<T>(job))
    }

    fn run<T: Number>(&self, mut job: Job<'_>) -> Outputs {
        let range = job.range.clone();
        let indices = whole(&job.inputs[1]);
        let mut numbers = vec![T::default(); range.len()];
        T::load(&job.inputs[0], range.start, 1, &mut numbers);
        for i in 0..job.inputs[2].len() {
            if i % TILE == 0 && job.stopped() {
                return None;
            }
            let place = self.target.place(&indices, i);
            if range.contains(&place) {
                let mut update = [T::default()];
                T::load(&job.inputs[2], i, 0, &mut update);
                let number = &mut numbers[place - range.start];
                *number = self.kind.of(*number, update[0]);
            }
        }
        job.push(&numbers);
        Some(job.output)
    }
}

impl ScatterKind {
    fn of<T: Number>(self, number: T, update: T) -> T {
        match self {
            Self::Replace => update,
            Self::Add => number.add(update),
            Self::Multiply => number.mul(update),
            Self::Max => larger(number, update),
            Self::Min => smaller(number, update),
        }
    }
}
