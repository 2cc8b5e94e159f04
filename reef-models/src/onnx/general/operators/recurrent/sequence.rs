//! A sequence, and a state that goes through it.

use super::cell::{Cell, State};
use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_core::tensor::{Binary, Element, Scalar};

/// What comes from the input: for each step and batch a row of all gates, biases included.
pub(super) struct Inputs {
    all: Value,
    hidden: usize,
}

impl Inputs {
    /// One product of all steps of `x` with `weights`, which have a row for each element of each gate.
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

    fn steps(&self) -> usize {
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

/// The state after each step, in the order of the sequence, and the last one. In `reverse` the last step comes first.
pub(super) fn run(
    b: &mut Builder<'_>,
    cell: &Cell<'_>,
    inputs: &Inputs,
    first: State,
    reverse: bool,
) -> Result<(Vec<Value>, State)> {
    let (mut state, mut seen) = (first, Vec::new());
    for k in 0..inputs.steps() {
        let at = if reverse { inputs.steps() - 1 - k } else { k };
        state = cell.step(b, inputs, &state, at)?;
        seen.push(state.hidden.clone());
    }
    if reverse {
        seen.reverse();
    }
    Ok((seen, state))
}

/// How many steps each batch has, as floats of `element`; `None` if all have all.
pub(super) fn lengths(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    [steps, batch, _]: [usize; 3],
    element: Element,
) -> Result<Option<Value>> {
    let Some(value) = call.maybe(4) else { return Ok(None) };
    if value.dims() != [batch] || value.element().is_float() {
        return Err(format!("lengths of {batch} sequences wanted, {} there", value.spec));
    }
    if let Some(known) = value.known() {
        let known = known.array.values().to_i64();
        if let Some(length) = known.iter().find(|&&length| length < 0 || length > steps as i64) {
            return Err(format!("a length of {length} of {steps} steps"));
        }
        if known.iter().all(|&length| length == steps as i64) {
            return Ok(None);
        }
    }
    let lengths = b.cast(value, element)?;
    b.reshape(&lengths, vec![batch, 1]).map(Some)
}
