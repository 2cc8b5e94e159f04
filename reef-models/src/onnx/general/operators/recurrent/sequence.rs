//! A state that goes through a sequence.

use super::cell::{Cell, State};
use super::inputs::Inputs;
use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::Element;

/// The state after each step, in the order of the sequence, and the last one. In `reverse` the last
/// step comes first.
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

/// Number of steps of each batch, as floats of `element`; `None` if all have all.
pub(super) fn lengths(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    [steps, batch, _]: [usize; 3],
    element: Element,
) -> Result<Option<Value>> {
    let Some(value) = call.maybe(4) else { return Ok(None) };
    if value.dims() != [batch] || value.element().is_float() {
        return Err(format!("lengths must be of {batch} sequences, got {}", value.spec));
    }
    if let Some(known) = value.known_values() {
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
