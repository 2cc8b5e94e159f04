//! Views of tensors: sizes, and distances of neighbouring elements.

use super::array::Values;
use super::number::Number;
use reef_core::{Error, Result};

/// Upper bound of the elements of a tensor. In bytes it doesn't wrap.
pub(crate) const MAX_ELEMENTS: usize = 1 << 40;

/// A product that stops at the largest number.
pub(crate) fn product(sizes: &[usize]) -> usize {
    sizes.iter().copied().fold(1, usize::saturating_mul)
}

/// Returns whether [`View::broadcast`] has an answer.
pub(crate) fn can_broadcast(dims: &[usize], to: &[usize]) -> bool {
    let last = to.len().checked_sub(dims.len()).map(|missing| &to[missing..]);
    last.is_some_and(|to| dims.iter().zip(to).all(|(&size, &to)| size == to || size == 1))
}

/// Elements of a row-major tensor in an order and a number of their own. The one at `i₀, i₁, …` is
/// `i₀ * strides[0] + i₁ * strides[1] + …`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct View {
    /// Sizes, outermost first.
    pub dims: Vec<usize>,
    /// Elements from one to the next along each axis; 0 where one stands for all.
    pub strides: Vec<usize>,
}

impl View {
    /// A view of these sizes and distances.
    pub fn new(dims: &[usize], strides: &[usize]) -> Self {
        Self { dims: dims.to_vec(), strides: strides.to_vec() }
    }

    /// All elements in their own order.
    pub fn dense(dims: &[usize]) -> Self {
        let mut strides = vec![1; dims.len()];
        for k in (1..dims.len()).rev() {
            strides[k - 1] = dims[k].saturating_mul(strides[k]);
        }
        Self { dims: dims.to_vec(), strides }
    }

    /// A row-major tensor of `dims` broadcast to `to`, axes counted from the last.
    pub fn broadcast(dims: &[usize], to: &[usize]) -> Option<Self> {
        if !can_broadcast(dims, to) {
            return None;
        }
        let missing = to.len() - dims.len();
        let (mut strides, mut stride) = (vec![0; to.len()], 1usize);
        for (k, &size) in dims.iter().enumerate().rev() {
            if size == to[missing + k] {
                strides[missing + k] = stride;
            }
            stride = stride.saturating_mul(size);
        }
        Some(Self { dims: to.to_vec(), strides })
    }

    /// These axes of it, in this order.
    #[must_use]
    pub fn axes(&self, axes: &[usize]) -> Self {
        let pick = |from: &[usize]| axes.iter().map(|&axis| from[axis]).collect();
        Self { dims: pick(&self.dims), strides: pick(&self.strides) }
    }

    /// Its axes, then those of `other`.
    #[must_use]
    pub fn then(&self, other: &Self) -> Self {
        Self {
            dims: [&*self.dims, &other.dims].concat(),
            strides: [&*self.strides, &other.strides].concat(),
        }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        product(&self.dims)
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.dims.contains(&0)
    }

    /// Checks that it stays inside of `elements`.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub fn check(&self, elements: usize) -> Result<()> {
        let reach = self.dims.iter().zip(&self.strides).fold(0usize, |reach, (size, &stride)| {
            reach.saturating_add(size.saturating_sub(1).saturating_mul(stride))
        });
        let along = |(size, stride): (&usize, &usize)| size.checked_mul(*stride).is_some();
        // Also where there are none: code that merges axes or divides by their sizes multiplies all
        // of them.
        let sizes = self.dims.iter().fold(1usize, |all, &size| all.saturating_mul(size.max(1)));
        let fits = self.dims.len() == self.strides.len()
            && sizes <= MAX_ELEMENTS
            && self.dims.iter().zip(&self.strides).all(along);
        if fits && (self.is_empty() || reach < elements) {
            return Ok(());
        }
        Err(Error::invalid("view", format!("{self:?} cannot be of {elements} elements")))
    }

    /// Returns a view of the elements in their order, with axes merged that lie one in the other,
    /// and no axis of one element.
    #[must_use]
    pub fn merged(&self) -> Self {
        let mut merged = Self::default();
        for (&size, &stride) in self.dims.iter().zip(&self.strides).filter(|(size, _)| **size != 1)
        {
            match (merged.dims.last_mut(), merged.strides.last_mut()) {
                (Some(dim), Some(last)) if *last == size * stride => {
                    (*dim, *last) = (*dim * size, stride)
                }
                _ => {
                    merged.dims.push(size);
                    merged.strides.push(stride);
                }
            }
        }
        merged
    }

    /// Returns the position of element `index`, counted in the view's own order.
    pub fn offset(&self, mut index: usize) -> usize {
        let mut offset = 0;
        for (&size, stride) in self.dims.iter().zip(&self.strides).rev() {
            offset += index % size * stride;
            index /= size;
        }
        offset
    }

    /// Returns the runs from element `first` on, `len` elements in all: the start and length of
    /// each.
    pub fn runs(&self, first: usize, len: usize) -> impl Iterator<Item = (usize, usize)> {
        let last = self.dims.last().copied().unwrap_or(1);
        let (mut at, end) = (first, first + len);
        std::iter::from_fn(move || {
            let run = (last - at % last.max(1)).min(end - at);
            (at < end).then(|| {
                let start = self.offset(at);
                at += run;
                (start, run)
            })
        })
    }

    /// Returns the distance of elements along the last axis.
    pub fn step(&self) -> usize {
        self.strides.last().copied().unwrap_or(0)
    }

    /// Reads `to.len()` elements from element `first` on, of what begins at `base`.
    pub(crate) fn load<T: Number>(
        &self,
        values: &Values<'_>,
        base: usize,
        first: usize,
        to: &mut [T],
    ) {
        let mut at = 0;
        for (start, run) in self.runs(first, to.len()) {
            T::load(values, base + start, self.step(), &mut to[at..at + run]);
            at += run;
        }
    }
}

/// A view that begins at some element.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Placed {
    /// Position of its first element.
    pub first: usize,
    /// Positions of all elements, from that one on.
    pub view: View,
}

impl Placed {
    /// Checks that it stays inside of `elements`.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub fn check(&self, elements: usize) -> Result<()> {
        self.view.check(elements.saturating_sub(self.first))
    }

    /// Returns the position of element `index`, counted in the view's own order.
    pub fn at(&self, index: usize) -> usize {
        self.first + self.view.offset(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_axes_are_merged() {
        let dense = View::dense(&[2, 1, 3, 4]);
        assert_eq!(dense.merged(), View { dims: vec![24], strides: vec![1] });
        let turned = dense.axes(&[3, 0, 1, 2]);
        assert_eq!(turned.merged(), View { dims: vec![4, 6], strides: vec![1, 4] });
        assert_eq!(turned.offset(7), 5);
        assert_eq!(turned.merged().runs(5, 3).collect::<Vec<_>>(), [(20, 1), (1, 2)]);
    }

    #[test]
    fn broadcasting_repeats_single_elements() {
        let row = View::broadcast(&[3, 1], &[2, 3, 4]).unwrap();
        assert_eq!(row.strides, [0, 1, 0]);
        assert!(View::broadcast(&[2], &[3]).is_none() && View::broadcast(&[1, 1], &[1]).is_none());
        assert!(row.check(3).is_ok() && row.check(2).is_err());
        let beyond = View { dims: vec![0, 2], strides: vec![1, usize::MAX] };
        assert!(beyond.check(3).is_err(), "axes of no elements are axes");
        let endless = View { dims: vec![1 << 40, 1 << 40, 0], strides: vec![0; 3] };
        assert!(endless.check(3).is_err(), "merging its axes would wrap");
    }
}
