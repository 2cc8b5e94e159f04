//! Activations, alone and after a sum.

use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::onnx::general::operators::elements::activations::{
    gelu_by_tanh, negative, power, slope, softplus, softsign,
};
use crate::tensors::builder::Builder;
use crate::tensors::expressions::Writer;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Unary};

/// `gelu(x + bias)`, exact or approximate, or `x · sigmoid(alpha · x)`.
pub(super) fn gelu(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let mut x = call.get(0)?.clone();
    let bias = if matches!(call.op(), "BiasGelu" | "FastGelu") { call.maybe(1) } else { None };
    if let Some(bias) = bias {
        x = b.binary(Binary::Add, &x, bias)?;
    }
    match call.op() {
        "FastGelu" => b.each(&x, gelu_by_tanh),
        "QuickGelu" => {
            let alpha = call.float("alpha", 1.702)?;
            b.each(&x, |w, x| {
                let scaled = slope(w, x, alpha);
                let gate = w.sigmoid(scaled);
                w.mul(x, gate)
            })
        }
        _ => b.each(&x, Writer::gelu),
    }
}

/// The left half of the columns of `x + bias`, times `gelu` of the right one.
pub(super) fn split_gelu(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = b.binary(Binary::Add, call.get(0)?, call.get(1)?)?;
    let columns = x.dims().last().copied().unwrap_or_default();
    if columns == 0 || !columns.is_multiple_of(2) {
        return Err(format!("halves of {}", x.spec));
    }
    let last = x.rank() - 1;
    let left = b.cut(&x, last, 0, columns / 2)?;
    let right = b.cut(&x, last, columns / 2, columns)?;
    let gate = b.each(&right, Writer::gelu)?;
    b.binary(Binary::Mul, &left, &gate)
}

/// The activation that attribute `activation` names, with the numbers of `activation_params`, or of
/// an attribute for each.
pub(super) fn named(b: &mut Builder<'_>, call: &Call<'_>, x: &Value) -> Result<Value> {
    let numbers = call.floats("activation_params")?.unwrap_or_default();
    let number = |k: usize, default: f64| numbers.get(k).map_or(default, |&number| number.into());
    let alpha = |default| call.float("activation_alpha", number(0, default));
    match call.text("activation", "")? {
        "" => Ok(x.clone()),
        "Relu" => b.each(x, Writer::relu),
        "Tanh" => b.unary(Unary::Tanh, x),
        "Sigmoid" => b.each(x, Writer::sigmoid),
        "Softplus" => b.each(x, softplus),
        "Softsign" => b.each(x, softsign),
        "LeakyRelu" => {
            let alpha = alpha(0.01)?;
            b.each(x, |w, x| negative(w, x, |w| slope(w, x, alpha)))
        }
        "Elu" => {
            let alpha = alpha(1.0)?;
            b.each(x, |w, x| negative(w, x, |w| power(w, x, alpha, 1.0)))
        }
        "Selu" => {
            let alpha = alpha(1.673_263_2)?;
            let gamma = call.float("activation_gamma", number(1, 1.050_701))?;
            b.each(x, |w, x| {
                let inner = negative(w, x, |w| power(w, x, alpha, 1.0));
                slope(w, inner, gamma)
            })
        }
        "ThresholdedRelu" => {
            let alpha = alpha(1.0)?;
            b.each(x, |w, x| {
                let (alpha, zero) = (w.real(alpha), w.real(0.0));
                let above = w.bin(Binary::Less, alpha, x);
                w.select(above, x, zero)
            })
        }
        "Clip" => {
            let above = b.with_number(Binary::Max, x, number(0, f64::from(f32::MIN)))?;
            b.with_number(Binary::Min, &above, number(1, f64::from(f32::MAX)))
        }
        "HardSigmoid" => {
            let beta = call.float("activation_beta", number(1, 0.5))?;
            let alpha = alpha(0.2)?;
            b.each(x, move |w, x| w.hard_sigmoid(x, alpha, beta))
        }
        other => Err(format!("attribute activation = {other:?}")),
    }
}
