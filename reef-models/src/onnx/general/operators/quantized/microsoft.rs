//! Operators that ONNX Runtime adds for networks of 8 bits.

use super::integers::{of_columns, of_rows, product_of, requantized, scaled};
use super::linear::{Factor, Narrow, dequantized, quantize_by_range, quantized};
use crate::onnx::fault::Result;
use crate::onnx::general::bounds::before::masked;
use crate::onnx::general::call::{Call, one};
use crate::onnx::general::operators::elements::activations::{negative, slope};
use crate::onnx::general::operators::sums::pools::{average, max};
use crate::onnx::general::operators::sums::window::{channels_first, channels_last};
use crate::tensors::builder::Builder;
use crate::tensors::expressions::Writer;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Element, Scalar};

pub(in crate::onnx::general::operators) fn quantized_of_microsoft(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "QLinearAdd" => one(of_two(b, call, Binary::Add)?),
        "QLinearMul" => one(of_two(b, call, Binary::Mul)?),
        "QLinearSigmoid" => one(of_one(b, call, Writer::sigmoid)?),
        "QLinearLeakyRelu" => {
            let alpha = call.float("alpha", 0.01)?;
            one(of_one(b, call, move |w, x| negative(w, x, move |w| slope(w, x, alpha)))?)
        }
        "QLinearGlobalAveragePool" => one(global_mean(b, call)?),
        "QLinearAveragePool" => one(mean(b, call)?),
        "QLinearWhere" => one(chosen(b, call)?),
        "NhwcMaxPool" => {
            let x = channels_first(b, call.get(0)?)?;
            let made = max(b, call, &x)?;
            one(channels_last(b, &made[0])?)
        }
        "QLinearSoftmax" => one(softmax(b, call)?),
        "QLinearConcat" => one(concat(b, call)?),
        "QGemm" => one(gemm(b, call)?),
        "MatMulIntegerToFloat" => one(product_to_float(b, call)?),
        "DynamicQuantizeMatMul" => one(dynamic_product(b, call)?),
        _ => Ok(None),
    }
}

/// Floats of operands `at`: numbers, scale, zero point.
fn floats(b: &mut Builder<'_>, call: &Call<'_>, at: usize) -> Result<Value> {
    let (scale, zero) = (Factor::of(b, call.get(at + 1)?)?, zero(b, call, at + 2)?);
    dequantized(b, call.get(at)?, &scale, &zero, Element::F32)
}

fn zero(b: &Builder<'_>, call: &Call<'_>, at: usize) -> Result<Factor> {
    call.maybe(at).map_or(Ok(Factor::Number(0.0)), |zero| Factor::of(b, zero))
}

/// Floats by the scale and the zero point that are operands `at`; without one they are of the type
/// of `like`.
fn narrowed(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    made: &Value,
    at: usize,
    like: &Value,
) -> Result<Value> {
    let to = Narrow::of(call.maybe(at + 1).unwrap_or(like).element())?;
    let (scale, zero) = (Factor::of(b, call.get(at)?)?, zero(b, call, at + 1)?);
    quantized(b, made, &scale, &zero, to)
}

fn of_two(b: &mut Builder<'_>, call: &Call<'_>, function: Binary) -> Result<Value> {
    let (x, y) = (floats(b, call, 0)?, floats(b, call, 3)?);
    let made = b.binary(function, &x, &y)?;
    narrowed(b, call, &made, 6, call.get(0)?)
}

fn of_one(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    write: impl FnOnce(&mut Writer, usize) -> usize,
) -> Result<Value> {
    let x = floats(b, call, 0)?;
    let made = b.map(Element::F32, &[&x], |w| {
        let x = w.input(0);
        write(w, x)
    })?;
    narrowed(b, call, &made, 3, call.get(0)?)
}

/// Means over windows, of tensors whose channels may come last.
fn mean(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = floats(b, call, 0)?;
    let made = if call.flag("channels_last", false)? {
        let x = channels_first(b, &x)?;
        let made = average(b, call, &x)?;
        channels_last(b, &made)?
    } else {
        average(b, call, &x)?
    };
    narrowed(b, call, &made, 3, call.get(0)?)
}

/// Operands: a condition, two tensors with their scales and zero points, and those of the result.
fn chosen(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, y) = (floats(b, call, 1)?, floats(b, call, 4)?);
    let made = b.map(Element::F32, &[call.get(0)?, &x, &y], |w| {
        let (condition, x, y) = (w.input(0), w.input(1), w.input(2));
        w.select(condition, x, y)
    })?;
    narrowed(b, call, &made, 7, call.get(1)?)
}

fn global_mean(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = floats(b, call, 0)?;
    let is_last = call.flag("channels_last", false)?;
    let space = if is_last { 1..x.rank().saturating_sub(1) } else { 2..x.rank() };
    let axes: Vec<usize> = space.collect();
    let made = b.mean(&x, &axes)?;
    narrowed(b, call, &made, 3, call.get(0)?)
}

/// Along one axis; of operator sets before 13 along all from it on.
fn softmax(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let mut x = floats(b, call, 0)?;
    if let Some(bound) = call.bound(0) {
        x = masked(b, &x, bound, Scalar::Real(f64::NEG_INFINITY))?; // no share for other rows
    }
    let is_old = call.int("opset", call.opset)? < 13;
    let at = call.axis(if is_old { 1 } else { -1 }, x.rank())?;
    let axes: Vec<usize> = if is_old { (at..x.rank()).collect() } else { vec![at] };
    let made = b.softmax(&x, &axes, false)?;
    narrowed(b, call, &made, 3, call.get(0)?)
}

/// Operands: scale and zero point of the result, then three for each tensor.
fn concat(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let count = call.operands.len();
    if count < 5 || !(count - 2).is_multiple_of(3) {
        return Err(format!("must have 2 operands and 3 for each tensor, got {count}"));
    }
    let each = (2..count).step_by(3).map(|at| floats(b, call, at));
    let each = each.collect::<Result<Vec<_>>>()?;
    let at = call.axis(0, each[0].rank())?;
    let made = b.concat(&each.iter().collect::<Vec<_>>(), at)?;
    narrowed(b, call, &made, 0, call.get(2)?)
}

/// `alpha · a · b + c`, as floats or, with a scale of the result, quantized again.
fn gemm(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let turned = [call.flag("transA", false)?, call.flag("transB", false)?];
    let alpha = call.float("alpha", 1.0)?;
    let (x, y) = (call.get(0)?, call.get(3)?);
    if x.rank() != 2 || y.rank() != 2 {
        return Err(format!("must be matrices, got {} and {}", x.spec, y.spec));
    }
    let x = if turned[0] { b.transpose(x, &[1, 0])? } else { x.clone() };
    let turned_y = if turned[1] { b.transpose(y, &[1, 0])? } else { y.clone() };
    let zeros = [zero(b, call, 2)?, of_columns(b, call.maybe(5))?];
    let mut sum = product_of(b, [&x, &turned_y], &zeros)?;
    if let Some(bias) = call.maybe(6) {
        sum = b.binary(Binary::Add, &sum, bias)?;
    }
    let scale_x = Factor::of(b, call.get(1)?)?;
    let scale_y = of_columns(b, Some(call.get(4)?))?;
    if call.maybe(7).is_none() {
        let made = scaled(b, &sum, [&scale_x, &scale_y], None)?;
        return b.with_number(Binary::Mul, &made, alpha);
    }
    let scale_x = match alpha {
        1.0 => scale_x,
        alpha => {
            let scale_x = b.with_number(Binary::Mul, call.get(1)?, alpha)?;
            Factor::of(b, &scale_x)?
        }
    };
    let scale = Factor::of(b, call.get(7)?)?;
    let to = Narrow::of(call.maybe(8).unwrap_or(&x).element())?;
    let zero = zero(b, call, 8)?;
    requantized(b, &sum, [&scale_x, &scale_y, &scale], &zero, to)
}

/// Operands: two matrices, their scales, their zero points, a bias.
fn product_to_float(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, y) = (call.get(0)?, call.get(1)?);
    let zeros = [of_rows(b, call.maybe(4), x.rank())?, of_columns(b, call.maybe(5))?];
    let sum = product_of(b, [x, y], &zeros)?;
    let scale_x = of_rows(b, Some(call.get(2)?), x.rank())?;
    let scale_y = of_columns(b, Some(call.get(3)?))?;
    scaled(b, &sum, [&scale_x, &scale_y], call.maybe(6))
}

/// Operands: floats, a matrix of 8 bits, its scale, its zero point, a bias.
fn dynamic_product(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let [x, scale_x, zero_x] = quantize_by_range(b, call.get(0)?)?;
    let zeros = [Factor::of(b, &zero_x)?, of_columns(b, call.maybe(3))?];
    let sum = product_of(b, [&x, call.get(1)?], &zeros)?;
    let scale_y = of_columns(b, Some(call.get(2)?))?;
    scaled(b, &sum, [&Factor::of(b, &scale_x)?, &scale_y], call.maybe(4))
}
