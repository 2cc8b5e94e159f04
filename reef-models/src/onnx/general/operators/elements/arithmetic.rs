//! Functions of several elements: arithmetic, comparisons, logic.

use crate::onnx::fault::Result;
use crate::onnx::general::call::{Call, one};
use crate::tensors::builder::Builder;
use crate::tensors::expressions::{Writer, same_element};
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Domain, Element, Unary};

pub(in crate::onnx::general::operators) fn arithmetic(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    if let Some((function, swapped)) = comparison(call.op()) {
        return one(compare(b, call, function, swapped)?);
    }
    match call.op() {
        "Add" => two(b, call, Binary::Add),
        "Sub" => two(b, call, Binary::Sub),
        "Mul" => two(b, call, Binary::Mul),
        "Div" => two(b, call, Binary::Div),
        "And" | "BitwiseAnd" => two(b, call, Binary::BitAnd),
        "Or" | "BitwiseOr" => two(b, call, Binary::BitOr),
        "Xor" | "BitwiseXor" => two(b, call, Binary::BitXor),
        "BitShift" => one(shift(b, call)?),
        "Mod" => two(b, call, if call.flag("fmod", false)? { Binary::Rem } else { Binary::Mod }),
        "Sum" => one(fold(b, call, Binary::Add)?),
        "Min" => one(fold(b, call, Binary::Min)?),
        "Max" => one(fold(b, call, Binary::Max)?),
        "Mean" => {
            let sum = fold(b, call, Binary::Add)?;
            one(b.with_number(Binary::Div, &sum, call.operands.len() as f64)?)
        }
        "Pow" => one(pow(b, call)?),
        "PRelu" => one(prelu(b, call)?),
        "Where" => one(choose(b, call)?),
        "Clip" => one(clip(b, call)?),
        "SwiGLU" => one(gated(b, call)?),
        "IsNaN" => one(truth(b, call.get(0)?, |w, x| w.un(Unary::IsNan, x))?),
        "IsInf" => one(is_infinite(b, call)?),
        _ => Ok(None),
    }
}

fn two(b: &mut Builder<'_>, call: &Call<'_>, function: Binary) -> Result<Option<Vec<Value>>> {
    one(b.binary(function, call.get(0)?, call.get(1)?)?)
}

fn shift(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, y) = (call.get(0)?, call.get(1)?);
    match call.text("direction", "")? {
        "LEFT" => b.binary(Binary::ShiftLeft, x, y),
        "RIGHT" if x.element().domain() == Domain::I64 => shift_right(b, x, y),
        "RIGHT" => b.binary(Binary::ShiftRight, x, y),
        other => Err(format!("attribute direction = {other:?}")),
    }
}

/// A shift that keeps the sign: negative numbers are complements of ones that are not negative.
fn shift_right(b: &mut Builder<'_>, x: &Value, y: &Value) -> Result<Value> {
    same_element(x, y)?;
    b.map(x.element(), &[x, y], |w| {
        let (x, y, zero) = (w.input(0), w.input(1), w.whole(0));
        let (below, other) = (w.bin(Binary::Less, x, zero), w.un(Unary::Complement, x));
        let positive = w.select(below, other, x);
        let shifted = w.bin(Binary::ShiftRight, positive, y);
        let turned = w.un(Unary::Complement, shifted);
        w.select(below, turned, shifted)
    })
}

/// All operands, one after the other.
fn fold(b: &mut Builder<'_>, call: &Call<'_>, function: Binary) -> Result<Value> {
    let all = call.all()?;
    let (first, others) = all.split_first().ok_or("no operands")?;
    others.iter().try_fold((*first).clone(), |sum, value| b.binary(function, &sum, value))
}

/// A comparison: the function, and whether its operands are swapped.
fn comparison(op: &str) -> Option<(Binary, bool)> {
    Some(match op {
        "Less" => (Binary::Less, false),
        "LessOrEqual" => (Binary::LessOrEqual, false),
        "Greater" => (Binary::Less, true),
        "GreaterOrEqual" => (Binary::LessOrEqual, true),
        "Equal" => (Binary::Equal, false),
        _ => return None,
    })
}

fn compare(b: &mut Builder<'_>, call: &Call<'_>, function: Binary, swapped: bool) -> Result<Value> {
    let (x, y) = (call.get(0)?, call.get(1)?);
    same_element(x, y)?;
    b.map_in(x.element().domain(), Element::Bool, &[x, y], |w| {
        let (x, y) = (w.input(0), w.input(1));
        if swapped { w.bin(function, y, x) } else { w.bin(function, x, y) }
    })
}

/// A condition of each element.
fn truth(
    b: &mut Builder<'_>,
    x: &Value,
    write: impl FnOnce(&mut Writer, usize) -> usize,
) -> Result<Value> {
    b.map_in(x.element().domain(), Element::Bool, &[x], |w| {
        let x = w.input(0);
        write(w, x)
    })
}

fn is_infinite(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (negative, positive) =
        (call.flag("detect_negative", true)?, call.flag("detect_positive", true)?);
    truth(b, call.get(0)?, |w, x| {
        let (infinite, zero) = (w.un(Unary::IsInf, x), w.real(0.0));
        let below = w.bin(Binary::Less, x, zero);
        let (if_below, if_above) =
            (w.real(f64::from(u8::from(negative))), w.real(f64::from(u8::from(positive))));
        let counts = w.select(below, if_below, if_above);
        w.mul(infinite, counts)
    })
}

/// The exponent may have a type of its own.
fn pow(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, y) = (call.get(0)?, call.get(1)?);
    let domain = match (x.element().is_float(), y.element().is_float()) {
        (false, false) => x.element().domain(),
        (true, true) if x.element().domain() == y.element().domain() => x.element().domain(),
        _ => Domain::F64,
    };
    b.map_in(domain, x.element(), &[x, y], |w| {
        let (x, y) = (w.input(0), w.input(1));
        w.bin(Binary::Pow, x, y)
    })
}

fn prelu(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, slope) = (call.get(0)?, call.get(1)?);
    same_element(x, slope)?;
    b.map(x.element(), &[x, slope], |w| {
        let (x, slope, zero) = (w.input(0), w.input(1), w.real(0.0));
        let (below, scaled) = (w.bin(Binary::Less, x, zero), w.mul(slope, x));
        w.select(below, scaled, x)
    })
}

fn choose(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (which, x, y) = (call.get(0)?, call.get(1)?, call.get(2)?);
    same_element(x, y)?;
    b.map(x.element(), &[which, x, y], |w| {
        let (which, x, y) = (w.input(0), w.input(1), w.input(2));
        w.select(which, x, y)
    })
}

/// `x · sigmoid(alpha · x) · y`, of two tensors of one shape.
fn gated(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, y, alpha) = (call.get(0)?, call.get(1)?, call.float("alpha", 1.0)?);
    same_element(x, y)?;
    if x.dims() != y.dims() {
        return Err(format!("a gate of {} for {}", x.spec, y.spec));
    }
    b.map(x.element(), &[x, y], |w| {
        let (x, y, alpha) = (w.input(0), w.input(1), w.real(alpha));
        let scaled = w.mul(alpha, x);
        let gate = w.sigmoid(scaled);
        let gated = w.mul(x, gate);
        w.mul(gated, y)
    })
}

/// Bounds are attributes in older operator sets. The upper one wins if they are in the wrong order.
fn clip(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let mut made = call.get(0)?.clone();
    let bounds = [(Binary::Max, call.maybe_float("min")?), (Binary::Min, call.maybe_float("max")?)];
    for (index, (function, attribute)) in bounds.into_iter().enumerate() {
        if let Some(number) = attribute {
            made = b.with_number(function, &made, number)?;
        } else if let Some(bound) = call.maybe(index + 1) {
            made = b.binary(function, &made, bound)?;
        }
    }
    Ok(made)
}
