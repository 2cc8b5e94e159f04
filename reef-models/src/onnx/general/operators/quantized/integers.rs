//! Products of numbers of 8 bits, as integers of 32 bits, and those that are quantized again.

use super::linear::{Factor, Narrow, operands, rounded};
use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::onnx::general::operators::sums::convolutions::{biased, convolved};
use crate::onnx::general::operators::sums::window::{channels_first, channels_last};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Domain, Element};

/// `x - zero` as integers of 32 bits.
pub(super) fn moved(b: &mut Builder<'_>, x: &Value, zero: &Factor) -> Result<Value> {
    if matches!(zero, Factor::Number(0.0)) {
        return b.cast(x, Element::I32);
    }
    b.map_in(Domain::I64, Element::I32, &operands(x, &[zero]), |w| {
        let mut inputs = 1;
        let (x, zero) = (w.input(0), zero.write(w, &mut inputs));
        w.sub(x, zero)
    })
}

/// A zero point, or none.
fn zero(b: &Builder<'_>, value: Option<&Value>, at: usize, rank: usize) -> Result<Factor> {
    match value {
        Some(value) => Factor::along(b, value, at, rank),
        None => Ok(Factor::Number(0.0)),
    }
}

/// Factors of the rows of a matrix's left operand and of the columns of its right one.
pub(super) fn of_rows(b: &Builder<'_>, value: Option<&Value>, rank: usize) -> Result<Factor> {
    zero(b, value, rank.saturating_sub(2), rank.max(2))
}

pub(in crate::onnx::general::operators) fn of_columns(
    b: &Builder<'_>,
    value: Option<&Value>,
) -> Result<Factor> {
    zero(b, value, 0, 1)
}

pub(super) fn product(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, y) = (call.get(0)?, call.get(1)?);
    let zeros = [of_rows(b, call.maybe(2), x.rank())?, of_columns(b, call.maybe(3))?];
    product_of(b, [x, y], &zeros)
}

/// The product of two tensors without their zero points.
pub(in crate::onnx::general::operators) fn product_of(
    b: &mut Builder<'_>,
    [x, y]: [&Value; 2],
    [zero_x, zero_y]: &[Factor; 2],
) -> Result<Value> {
    let (x, y) = (moved(b, x, zero_x)?, moved(b, y, zero_y)?);
    b.matmul(&x, &y)
}

pub(super) fn convolution(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, w) = (call.get(0)?, call.get(1)?);
    let zeros = [zero(b, call.maybe(2), 0, x.rank())?, zero(b, call.maybe(3), 0, w.rank().max(1))?];
    convolution_of(b, call, [x, w], &zeros)
}

fn convolution_of(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    [x, w]: [&Value; 2],
    [zero_x, zero_w]: &[Factor; 2],
) -> Result<Value> {
    let (x, w) = (moved(b, x, zero_x)?, moved(b, w, zero_w)?);
    convolved(b, call, &x, &w)
}

/// Integers of scale `x · w` as numbers of scale `y`: `round(sum · (x · w / y)) + zero`.
pub(super) fn requantized(
    b: &mut Builder<'_>,
    sum: &Value,
    [x, w, y]: [&Factor; 3],
    zero: &Factor,
    to: Narrow,
) -> Result<Value> {
    b.map_in(Domain::F32, to.element, &operands(sum, &[x, w, y, zero]), |f| {
        let mut inputs = 1;
        let sum = f.input(0);
        let [x, w, y] = [x, w, y].map(|factor| factor.write(f, &mut inputs));
        let zero = zero.write(f, &mut inputs);
        let product = f.mul(x, w);
        let scale = f.div(product, y);
        let scaled = f.mul(sum, scale);
        rounded(f, scaled, zero, to)
    })
}

pub(super) fn linear_product(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, y) = (call.get(0)?, call.get(3)?);
    let zeros = [of_rows(b, call.maybe(2), x.rank())?, of_columns(b, call.maybe(5))?];
    let sum = product_of(b, [x, y], &zeros)?;
    let scale_x = of_rows(b, Some(call.get(1)?), x.rank())?;
    let scale_y = of_columns(b, Some(call.get(4)?))?;
    let (scale, zero) = (Factor::of(b, call.get(6)?)?, call.get(7)?);
    let to = Narrow::of(zero.element())?;
    let zero = Factor::of(b, zero)?;
    requantized(b, &sum, [&scale_x, &scale_y, &scale], &zero, to)
}

pub(super) fn linear_convolution(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let is_last = call.flag("channels_last", false)?;
    let (x, w) = (call.get(0)?, call.get(3)?);
    let turned = if is_last { Some(channels_first(b, x)?) } else { None };
    let x = turned.as_ref().unwrap_or(x);
    let zeros = [zero(b, call.maybe(2), 0, x.rank())?, zero(b, call.maybe(5), 0, w.rank().max(1))?];
    let sum = convolution_of(b, call, [x, w], &zeros)?;
    let sum = biased(b, sum, call.maybe(8))?;
    let scale_x = Factor::of(b, call.get(1)?)?;
    let scale_w = Factor::along(b, call.get(4)?, 1, sum.rank())?;
    let (scale, zero) = (Factor::of(b, call.get(6)?)?, call.get(7)?);
    let to = Narrow::of(zero.element())?;
    let zero = Factor::of(b, zero)?;
    let made = requantized(b, &sum, [&scale_x, &scale_w, &scale], &zero, to)?;
    if is_last { channels_last(b, &made) } else { Ok(made) }
}

/// Integers of scale `x · y` as floats, with a bias.
pub(in crate::onnx::general::operators) fn scaled(
    b: &mut Builder<'_>,
    sum: &Value,
    [x, y]: [&Factor; 2],
    bias: Option<&Value>,
) -> Result<Value> {
    let made = b.map_in(Domain::F32, Element::F32, &operands(sum, &[x, y]), |w| {
        let mut inputs = 1;
        let sum = w.input(0);
        let (x, y) = (x.write(w, &mut inputs), y.write(w, &mut inputs));
        let scale = w.mul(x, y);
        w.mul(sum, scale)
    })?;
    bias.map_or(Ok(made.clone()), |bias| b.binary(Binary::Add, &made, bias))
}
