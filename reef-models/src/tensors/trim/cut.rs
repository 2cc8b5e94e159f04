//! Some places of one axis of a tensor.

use reef_op::tensor::{Spec, View};

/// Some places of an axis, in their order: elements `e` with `e / inner % size` among them.
///
/// Readers may see a storage with other sizes than its maker does, so the axis has no number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Cut {
    /// Elements from a place to the next.
    pub(super) inner: usize,
    /// Places of the axis.
    pub(super) size: usize,
    /// Places that are kept.
    pub(super) places: Vec<usize>,
}

impl Cut {
    /// The axis of a tensor of `dims` that it is of.
    pub(super) fn axis(&self, dims: &[usize]) -> Option<usize> {
        let strides = View::dense(dims).strides;
        (0..dims.len()).find(|&k| dims[k] == self.size && strides[k] == self.inner)
    }

    /// Gives the part of a tensor; `None` if it has no such axis.
    pub(super) fn spec(&self, spec: &Spec) -> Option<Spec> {
        let mut left = spec.clone();
        left.dims[self.axis(&spec.dims)?] = self.places.len();
        Some(left)
    }

    /// Distance between two elements that are `apart` and have the same place on its axis, in what
    /// is left.
    pub(super) fn distance(&self, apart: usize) -> Option<usize> {
        let all = self.inner * self.size;
        match apart {
            _ if apart < self.inner => Some(apart),
            _ if apart.is_multiple_of(all) => Some(apart / self.size * self.places.len()),
            _ => None,
        }
    }

    /// Views of what is left that see what `views` saw, if the elements of each lie at one place of
    /// the axis but for axis `along` of the first, which is it.
    pub(super) fn views(&self, views: [&View; 2], along: usize) -> Option<[View; 2]> {
        let is_own = |which: usize, k: usize| which == 0 && k == along;
        let mut near = 0usize;
        let mut made = [views[0].clone(), views[1].clone()];
        for (which, view) in made.iter_mut().enumerate() {
            for k in 0..view.dims.len() {
                if is_own(which, k) {
                    view.dims[k] = self.places.len();
                } else if view.dims[k] > 1 {
                    let apart = view.strides[k];
                    if apart < self.inner {
                        near += apart * (view.dims[k] - 1);
                    }
                    view.strides[k] = self.distance(apart)?;
                } else {
                    view.strides[k] = 0;
                }
            }
        }
        (near < self.inner).then_some(made)
    }
}
