//! Devices that compute with plain loops.

use reef_conformance::Null;
use reef_models::kinds::{full_quantization, reference};

/// A device that has no kernels of 8 bits.
pub(crate) fn plain() -> Null {
    Null::computing(|op, inputs, output| {
        let inputs = reference::Inputs {
            input: &inputs.input,
            residual: inputs.second.as_deref(),
            weights: &inputs.weights,
            bias: &inputs.bias,
        };
        reference::apply(op, inputs, output);
    })
}

/// A device that has all kernels of 8 bits.
pub(crate) fn eight() -> Null {
    plain().with_quantization(full_quantization)
}
