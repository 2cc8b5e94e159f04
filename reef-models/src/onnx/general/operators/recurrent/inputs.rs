//! The input's part of the gates of each step.

use crate::onnx::fault::Result;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Scalar};

/// A row of all gates for each step and batch, as far as they come from the input. Biases are
/// included.
pub(super) struct Inputs {
    all: Value,
    hidden: usize,
}

impl Inputs {
    /// One product of all steps of `x` with `weights`, which have a row for each element of each
    /// gate.
    pub(super) fn of(
        b: &mut Builder<'_>,
        x: &Value,
        weights: &Value,
        bias: Option<&Value>,
        hidden: usize,
    ) -> Result<Self> {
        let (steps, batch, size) = (x.dims()[0], x.dims()[1], x.dims()[2]);
        let rows = b.reshape(x, vec![steps * batch, size])?;
        let mut all = b.gemm(&rows, weights, [false, true])?;
        if let Some(bias) = bias {
            all = b.binary(Binary::Add, &all, bias)?;
        }
        let width = weights.dims()[0];
        Ok(Self { all: b.reshape(&all, vec![steps, batch, width])?, hidden })
    }

    /// Number of steps.
    pub(super) fn steps(&self) -> usize {
        self.all.dims()[0]
    }

    /// Gates from `from` to `to` of a step.
    pub(super) fn at(
        &self,
        b: &mut Builder<'_>,
        step: usize,
        [from, to]: [usize; 2],
    ) -> Result<Value> {
        let (batch, columns) = (self.all.dims()[1], from * self.hidden..to * self.hidden);
        let width = columns.len();
        let places = vec![vec![step], (0..batch).collect(), columns.collect()];
        let row = b.pick(&self.all, places, Scalar::Whole(0))?;
        b.reshape(&row, vec![batch, width])
    }
}
