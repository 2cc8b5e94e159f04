//! Sizes and values that a file leaves open.

use reef_core::tensor::Array;
use std::collections::BTreeMap;

/// Choices for what a file leaves open.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct TensorOptions {
    /// Sizes of an input, by its name; or of one size, by the name that the file gives to it. What
    /// is left open otherwise is 1.
    pub(crate) shapes: BTreeMap<String, Vec<usize>>,
    /// The first size of inputs that leave it open, unless `shapes` says otherwise.
    pub(crate) batch: Option<usize>,
    /// Rows and columns, the last two of four sizes, of inputs that leave them open, unless
    /// `shapes` says otherwise.
    pub(crate) size: Option<usize>,
    /// Values of inputs that decide about shapes, with their sizes. They are constants of the
    /// network then.
    pub(crate) values: BTreeMap<String, (Vec<usize>, Array)>,
}

impl TensorOptions {
    /// Size `axis` of `rank` that the file leaves open under this name.
    pub(in crate::onnx) fn open(&self, name: &str, axis: usize, rank: usize) -> usize {
        let usual = match (axis, rank) {
            (0, _) => self.batch,
            (2 | 3, 4) => self.size,
            _ => None,
        };
        match self.shapes.get(name).map(Vec::as_slice) {
            Some(&[size]) => size,
            _ => usual.unwrap_or(1),
        }
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
