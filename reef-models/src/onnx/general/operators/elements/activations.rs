//! Functions of each element.

use crate::onnx::fault::Result;
use crate::onnx::general::call::{Call, one};
use crate::tensors::builder::Builder;
use crate::tensors::expressions::Writer;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Unary};

/// Activations, and functions of one number.
pub(in crate::onnx::general::operators) fn activation(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    if let Some(function) = function(call.op()) {
        return one(b.unary(function, call.get(0)?)?);
    }
    let Some(write) = formula(call)? else { return Ok(None) };
    one(b.each(call.get(0)?, write)?)
}

fn function(op: &str) -> Option<Unary> {
    Some(match op {
        "Abs" => Unary::Abs,
        "Acos" => Unary::Acos,
        "Acosh" => Unary::Acosh,
        "Asin" => Unary::Asin,
        "Asinh" => Unary::Asinh,
        "Atan" => Unary::Atan,
        "Atanh" => Unary::Atanh,
        "BitwiseNot" => Unary::Complement,
        "Ceil" => Unary::Ceil,
        "Cos" => Unary::Cos,
        "Cosh" => Unary::Cosh,
        "Erf" => Unary::Erf,
        "Exp" => Unary::Exp,
        "Floor" => Unary::Floor,
        "Log" => Unary::Log,
        "Neg" => Unary::Neg,
        "Not" => Unary::Not,
        "Round" => Unary::Round,
        "Sign" => Unary::Sign,
        "Sin" => Unary::Sin,
        "Sinh" => Unary::Sinh,
        "Sqrt" => Unary::Sqrt,
        "Tan" => Unary::Tan,
        "Tanh" => Unary::Tanh,
        _ => return None,
    })
}

/// Appends the terms of a function of a term.
type Write = Box<dyn FnOnce(&mut Writer, usize) -> usize>;

fn formula(call: &Call<'_>) -> Result<Option<Write>> {
    let float = |name, default| call.float(name, default);
    Ok(Some(match call.op() {
        "Relu" => Box::new(Writer::relu),
        "Reciprocal" => Box::new(reciprocal),
        "Sigmoid" => Box::new(Writer::sigmoid),
        "HardSwish" => Box::new(Writer::hard_swish),
        "HardSigmoid" => {
            let (alpha, beta) = (float("alpha", 0.2)?, float("beta", 0.5)?);
            Box::new(move |w, x| w.hard_sigmoid(x, alpha, beta))
        }
        "Softplus" => Box::new(softplus),
        "Softsign" => Box::new(softsign),
        "Mish" => Box::new(|w, x| {
            let sum = softplus(w, x);
            let factor = w.un(Unary::Tanh, sum);
            w.mul(x, factor)
        }),
        "Swish" => {
            let alpha = float("alpha", 1.0)?;
            Box::new(move |w, x| {
                let alpha = w.real(alpha);
                let scaled = w.mul(alpha, x);
                let gate = w.sigmoid(scaled);
                w.mul(x, gate)
            })
        }
        "Gelu" => gelu(call.text("approximate", "none")?)?,
        "LeakyRelu" => {
            let alpha = float("alpha", 0.01)?;
            Box::new(move |w, x| negative(w, x, move |w| slope(w, x, alpha)))
        }
        "Elu" => {
            let alpha = float("alpha", 1.0)?;
            Box::new(move |w, x| negative(w, x, move |w| power(w, x, alpha, 1.0)))
        }
        "Celu" => {
            let alpha = float("alpha", 1.0)?;
            Box::new(move |w, x| negative(w, x, move |w| power(w, x, alpha, alpha)))
        }
        "Selu" => {
            let (alpha, gamma) = (float("alpha", 1.673_263_2)?, float("gamma", 1.050_701)?);
            Box::new(move |w, x| {
                let inner = negative(w, x, move |w| power(w, x, alpha, 1.0));
                let gamma = w.real(gamma);
                w.mul(gamma, inner)
            })
        }
        "ThresholdedRelu" => {
            let alpha = float("alpha", 1.0)?;
            Box::new(move |w, x| {
                let (alpha, zero) = (w.real(alpha), w.real(0.0));
                let above = w.bin(Binary::Less, alpha, x);
                w.select(above, x, zero)
            })
        }
        "Shrink" => {
            let (bias, lambda) = (float("bias", 0.0)?, float("lambd", 0.5)?);
            Box::new(move |w, x| shrink(w, x, bias, lambda))
        }
        _ => return Ok(None),
    }))
}

fn reciprocal(w: &mut Writer, x: usize) -> usize {
    let one = w.real(1.0);
    w.div(one, x)
}

/// `ln(1 + exp(x))`, which doesn't overflow: `max(x, 0) + ln(1 + exp(-|x|))`.
pub(in crate::onnx::general::operators) fn softplus(w: &mut Writer, x: usize) -> usize {
    let (one, zero, magnitude) = (w.real(1.0), w.real(0.0), w.un(Unary::Abs, x));
    let minus = w.un(Unary::Neg, magnitude);
    let power = w.un(Unary::Exp, minus);
    let sum = w.add(one, power);
    let logarithm = w.un(Unary::Log, sum);
    let positive = w.bin(Binary::Max, x, zero);
    w.add(positive, logarithm)
}

/// `x / (1 + |x|)`.
pub(in crate::onnx::general::operators) fn softsign(w: &mut Writer, x: usize) -> usize {
    let (one, magnitude) = (w.real(1.0), w.un(Unary::Abs, x));
    let sum = w.add(one, magnitude);
    w.div(x, sum)
}

/// `x` where it is not negative, and what `other` gives elsewhere.
pub(in crate::onnx::general::operators) fn negative(
    w: &mut Writer,
    x: usize,
    other: impl FnOnce(&mut Writer) -> usize,
) -> usize {
    let other = other(w);
    let zero = w.real(0.0);
    let below = w.bin(Binary::Less, x, zero);
    w.select(below, other, x)
}

/// `alpha * x`.
pub(in crate::onnx::general::operators) fn slope(w: &mut Writer, x: usize, alpha: f64) -> usize {
    let alpha = w.real(alpha);
    w.mul(alpha, x)
}

/// `alpha * (exp(x / divisor) - 1)`.
pub(in crate::onnx::general::operators) fn power(
    w: &mut Writer,
    x: usize,
    alpha: f64,
    divisor: f64,
) -> usize {
    let (alpha, divisor, one) = (w.real(alpha), w.real(divisor), w.real(1.0));
    let scaled = w.div(x, divisor);
    let power = w.un(Unary::Exp, scaled);
    let less = w.sub(power, one);
    w.mul(alpha, less)
}

fn shrink(w: &mut Writer, x: usize, bias: f64, lambda: f64) -> usize {
    let (bias, high, low, zero) = (w.real(bias), w.real(lambda), w.real(-lambda), w.real(0.0));
    let (more, less) = (w.add(x, bias), w.sub(x, bias));
    let (below, above) = (w.bin(Binary::Less, x, low), w.bin(Binary::Less, high, x));
    let inner = w.select(above, less, zero);
    w.select(below, more, inner)
}

/// By the error function, or by a hyperbolic tangent that comes close.
fn gelu(approximate: &str) -> Result<Write> {
    match approximate {
        "none" => Ok(Box::new(Writer::gelu)),
        "tanh" => Ok(Box::new(gelu_by_tanh)),
        other => Err(format!("attribute approximate = {other:?}")),
    }
}

/// The function that a hyperbolic tangent comes close to.
pub(in crate::onnx::general::operators) fn gelu_by_tanh(w: &mut Writer, x: usize) -> usize {
    let (factor, root) = (w.real(0.044_715), w.real((2.0 / std::f64::consts::PI).sqrt()));
    let square = w.mul(x, x);
    let cube = w.mul(square, x);
    let term = w.mul(factor, cube);
    let sum = w.add(x, term);
    let scaled = w.mul(root, sum);
    let tangent = w.un(Unary::Tanh, scaled);
    w.half_of_product(x, tangent)
}
