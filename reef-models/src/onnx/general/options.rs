//! Sizes and values that a file leaves open.

use crate::onnx::file::{Dimension, ValueFile};
use reef_op::tensor::Array;
use std::cell::Cell;
use std::collections::BTreeMap;

/// Choices for what a file leaves open.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TensorOptions {
    /// Sizes of an input, by its name; or of one size, by the name that the file gives to it. What
    /// is left open otherwise is 1, or another guess.
    pub(crate) shapes: BTreeMap<String, Vec<usize>>,
    /// The first size of inputs that leave it open, unless `shapes` says otherwise.
    pub(crate) batch: Option<usize>,
    /// Rows and columns, the last two of four sizes, of inputs that leave them open, unless
    /// `shapes` says otherwise.
    pub(crate) size: Option<usize>,
    /// Values of inputs that decide about shapes, with their sizes. They are constants of the
    /// network then.
    pub(crate) values: BTreeMap<String, (Vec<usize>, Array)>,
    /// Inputs whose values are given stay inputs, which nothing reads.
    pub(crate) keeps_inputs: bool,
    /// Iterations after which loops that data end have ended, if the caller says so.
    pub(crate) loop_bound: Option<usize>,
    /// Size that is taken otherwise, for all axes but the first.
    pub(crate) guess: usize,
    /// Size that is taken otherwise for the first axis.
    pub(crate) first: usize,
    /// Set if a size was left open otherwise.
    pub(crate) guessed: Cell<bool>,
}

/// Size of an open axis of an input of `rank` sizes, by its place.
pub(in crate::onnx) fn usual(
    batch: Option<usize>,
    size: Option<usize>,
    axis: usize,
    rank: usize,
) -> Option<usize> {
    match (axis, rank) {
        (0, _) => batch,
        (2 | 3, 4) => size,
        _ => None,
    }
}

impl Default for TensorOptions {
    fn default() -> Self {
        Self {
            shapes: BTreeMap::new(),
            batch: None,
            size: None,
            values: BTreeMap::new(),
            keeps_inputs: false,
            loop_bound: None,
            guess: 1,
            first: 1,
            guessed: Cell::new(false),
        }
    }
}

impl TensorOptions {
    /// Size `axis` of `rank` that the file leaves open under this name.
    pub(in crate::onnx) fn open(&self, name: &str, axis: usize, rank: usize) -> usize {
        match self.shapes.get(name).map(Vec::as_slice) {
            Some(&[size]) => size,
            _ => {
                let size = usual(self.batch, self.size, axis, rank).or_else(|| self.sum(name));
                size.unwrap_or_else(|| self.guess(axis))
            }
        }
    }

    /// The size that a name such as `past + 1` stands for; `None` if it is not a sum.
    fn sum(&self, name: &str) -> Option<usize> {
        let parts: Vec<&str> = name.split('+').map(str::trim).collect();
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let is_term = |part: &&str| !part.is_empty() && part.chars().all(is_plain);
        if parts.len() < 2 || !parts.iter().all(is_term) {
            return None;
        }
        parts.iter().try_fold(0usize, |sum, &part| {
            let size = match (part.parse::<usize>(), self.shapes.get(part).map(Vec::as_slice)) {
                (Ok(number), _) => number,
                (_, Some(&[size])) => size,
                _ => self.guess(1),
            };
            sum.checked_add(size)
        })
    }

    fn guess(&self, axis: usize) -> usize {
        self.guessed.set(true);
        if axis == 0 { self.first } else { self.guess }
    }

    /// With a size for an open axis of an input, if nothing chooses it otherwise.
    pub(in crate::onnx) fn with_size(
        &self,
        input: &ValueFile<'_>,
        axis: usize,
        size: usize,
    ) -> Option<Self> {
        let dims = input.dims.as_deref()?;
        let Some(&Dimension::Open(name)) = dims.get(axis) else { return None };
        if self.shapes.contains_key(name) || self.shapes.contains_key(input.name) {
            return None;
        }
        let own = |(k, dim): (usize, &Dimension<'_>)| match *dim {
            _ if k == axis => Some(size),
            Dimension::Fixed(fixed) => usize::try_from(fixed).ok(),
            Dimension::Open(name) => Some(self.open(name, k, dims.len())),
        };
        let (name, sizes) = if name.is_empty() {
            (input.name, dims.iter().enumerate().map(own).collect::<Option<Vec<_>>>()?)
        } else {
            (name, vec![size])
        };
        let mut chosen = self.clone();
        chosen.shapes.insert(name.to_owned(), sizes);
        Some(chosen)
    }

    /// Makes constants of those of `inputs` that are given and weren't yet; whether there were any.
    pub(in crate::onnx) fn bind(
        &mut self,
        inputs: &[String],
        given: &BTreeMap<String, (Vec<usize>, Array)>,
    ) -> bool {
        let mut bound = false;
        for name in inputs {
            if let Some(values) = given.get(name) {
                bound |= self.values.insert(name.clone(), values.clone()).is_none();
            }
        }
        bound
    }
}
