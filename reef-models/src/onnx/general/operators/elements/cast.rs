//! Types, constants, and what passes values on.

use crate::onnx::fault::{Result, beyond, unsupported};
use crate::onnx::general::call::{Call, one};
use crate::onnx::general::few::Few;
use crate::onnx::general::stored::{array, element};
use crate::tensors::axes::{elements, size};
use crate::tensors::builder::Builder;
use crate::tensors::expressions::same_element;
use crate::tensors::value::Value;
use reef_op::tensor::{Array, Binary, Element, Truth};

pub(in crate::onnx::general::operators) fn cast(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "Cast" => {
            let to = call.int("to", 0)?;
            one(converted(b, call, element(to)?, Few::of(to))?)
        }
        "CastLike" => {
            let to = call.get(1)?.element();
            one(converted(b, call, to, call.few_bits(1))?)
        }
        "Identity" | "OptionalGetElement" => one(call.get(0)?.clone()),
        "Optional" => {
            call.attribute("type")?;
            one(call.get(0)?.clone())
        }
        "OptionalHasElement" => {
            let there = Array::Bool(vec![Truth(call.maybe(0).is_some().into())]);
            one(b.constant(Vec::new(), there)?)
        }
        "Dropout" => dropout(b, call),
        "Constant" => one(constant(b, call)?),
        "ConstantOfShape" => one(filled(b, call)?),
        "Range" => one(range(b, call)?),
        "EyeLike" => one(eye(b, call)?),
        _ => Ok(None),
    }
}

/// Operand 0 as another type, which may be one of few bits.
fn converted(b: &mut Builder<'_>, call: &Call<'_>, to: Element, few: Option<Few>) -> Result<Value> {
    let (x, saturates) = (call.get(0)?, call.flag("saturate", true)?);
    call.text("round_mode", "up")?; // it is about scales of 8 bits alone
    match few {
        Some(few) if call.few_bits(0) == Some(few) => Ok(x.clone()),
        Some(few) => few.cast(b, x, saturates),
        None if x.element().is_float() && !to.is_float() && to != Element::Bool => {
            integer(b, x, to)
        }
        None => b.cast(x, to),
    }
}

/// Floats as integers. Of those out of range the standard says nothing: they are as x86 converts
/// them, and so ONNX Runtime. That gives the least number of 32 bits, and of 64 bits for wider
/// types and uint32; types of fewer bits keep the lowest of it, which are zeros.
fn integer(b: &mut Builder<'_>, x: &Value, to: Element) -> Result<Value> {
    let is_wide = matches!(to, Element::I64 | Element::U64 | Element::U32);
    let bound = 2f64.powi(if is_wide { 63 } else { 31 });
    b.map_in(x.element().domain(), to, &[x], |w| {
        let (x, least) = (w.input(0), w.real(-bound));
        let most = w.real(if to == Element::U64 { 2.0 * bound } else { bound });
        let is_above = w.bin(Binary::Less, least, x);
        let is_below = w.bin(Binary::Less, x, most);
        let fits = w.mul(is_above, is_below);
        let other = match to {
            Element::I32 | Element::I64 => least,
            Element::U64 => {
                let (half, zero) = (w.real(bound), w.real(0.0));
                let is_beyond = w.bin(Binary::LessOrEqual, most, x);
                w.select(is_beyond, zero, half)
            }
            _ => w.real(0.0),
        };
        w.select(fits, x, other)
    })
}

/// Dropout without training: its input. The mask is true everywhere. Before operator set 12, which
/// says nothing of it, it is what ONNX Runtime gives: zeros, and before 10 of the input's type.
fn dropout(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    call.float("ratio", 0.5)?;
    call.int("seed", 0)?;
    let training = call.number(2)?.is_some_and(|flag| flag != 0.0);
    if training && call.number(1)? != Some(0.0) {
        return Err("training is not supported".into());
    }
    let x = call.get(0)?.clone();
    let mask = Array::Bool(vec![Truth((call.opset >= 12).into())]);
    let mask = b.constant(Vec::new(), mask)?;
    let mask = if call.opset < 10 { b.cast(&mask, x.element())? } else { mask };
    let mask = b.expand(&mask, x.dims())?;
    Ok(Some(vec![x, mask]))
}

fn constant(b: &Builder<'_>, call: &Call<'_>) -> Result<Value> {
    if let Some(attribute) = call.attribute("value")? {
        let tensor = attribute.tensor.as_ref().ok_or("attribute value must be a tensor")?;
        let (spec, array, are_texts) = call.stored(tensor, b.ledger)?;
        call.makes_texts.set(are_texts);
        return b.constant(spec.dims, array);
    }
    if let Some(list) = call.ints("value_ints")? {
        return b.constant(vec![list.len()], Array::I64(list.to_vec()));
    }
    if let Some(list) = call.floats("value_floats")? {
        return b.constant(vec![list.len()], Array::F32(list.to_vec()));
    }
    if let Some(number) = call.maybe_int("value_int")? {
        return b.constant(Vec::new(), Array::I64(vec![number]));
    }
    if let Some(places) = call.places("value_strings")? {
        call.makes_texts.set(true);
        return b.constant(vec![places.len()], Array::I64(places));
    }
    if call.attribute("value_string")?.is_some() {
        call.makes_texts.set(true);
        let place = call.place(call.text("value_string", "")?)?;
        return b.constant(Vec::new(), Array::I64(vec![place]));
    }
    if call.attribute("sparse_value")?.is_some() {
        return Err(unsupported("attribute sparse_value is"));
    }
    match call.maybe_float("value_float")? {
        Some(number) => b.constant(Vec::new(), Array::F32(vec![number as f32])),
        None => Err("neither tensor nor number".into()),
    }
}

/// Sizes that a constant lists.
pub(in crate::onnx::general::operators) fn sizes(list: &[i64]) -> Result<Vec<usize>> {
    let sizes = list.iter().map(|&number| size(number)).collect::<Result<Vec<_>>>()?;
    elements(&sizes).map(|_| sizes)
}

fn filled(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let dims = sizes(&call.upper_bounds(0)?.ok_or("operand 0 is missing")?)?;
    let value = match call.attribute("value")? {
        None => b.constant(Vec::new(), Array::F32(vec![0.0]))?,
        Some(attribute) => {
            let tensor = attribute.tensor.as_ref().ok_or("attribute value must be a tensor")?;
            let (_, array) = array(tensor, call.folder, b.ledger)?;
            b.constant(Vec::new(), array)?
        }
    };
    b.expand(&value, &dims)
}

fn range(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let to = call.get(0)?.element();
    call.int("stash_type", 1)?; // numbers are doubles meanwhile, whatever they are rounded to
    let numbers = if to.is_float() { reals(b, call)? } else { integers(b, call)? };
    b.cast(&numbers, to)
}

/// The end of numbers, or the most that it may be if data decide it.
fn end<'c>(call: &'c Call<'_>) -> Result<&'c Array> {
    call.get(1)?; // it is read even if its bounds are
    let array = match call.points(1) {
        Some([_, most, _]) => most.known_values().map(|known| &known.array),
        None => call.array(1)?,
    };
    match array {
        Some(array) if array.len() == 1 => Ok(array),
        other => {
            let len = other.map_or(0, Array::len);
            Err(format!("operand 1 must have one value, got {len}"))
        }
    }
}

/// Refuses an end that data decide of numbers that are not counted from 0 by 1.
fn ensure_counted(call: &Call<'_>, is_counted: bool) -> Result<()> {
    if call.points(1).is_none() || is_counted {
        return Ok(());
    }
    Err(beyond("data decide where numbers end that are not counted from 0 by 1: fix their end"))
}

fn reals(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let limit = end(call)?.values().to_f64()[0];
    let start = call.number(0)?.ok_or("operand 0 is missing")?;
    let delta = call.number(2)?.unwrap_or(1.0); // left out in ONNX Runtime's domain alone
    ensure_counted(call, (start, delta) == (0.0, 1.0))?;
    let count = ((limit - start) / delta).ceil();
    if !count.is_finite() || count > reef_op::MAX_SIZE as f64 {
        return Err(format!("from {start} to {limit} by {delta}"));
    }
    let count = count.max(0.0) as usize;
    let _numbers = b.ledger.charge(8 * count as u64)?;
    let numbers = (0..count).map(|i| start + i as f64 * delta).collect();
    b.constant(vec![count], Array::F64(numbers))
}

/// As [`reals`], exactly: doubles are not all integers.
fn integers(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    same_element(call.get(0)?, call.get(1)?)?;
    let one = |index: usize| match call.numbers(index)?.as_deref() {
        None => Ok(None),
        Some(&[number]) => Ok(Some(number)),
        Some(other) => Err(format!("operand {index} must have one value, got {}", other.len())),
    };
    let limit = end(call)?.values().to_i64()[0];
    let start = one(0)?.ok_or("operand 0 is missing")?;
    let delta = one(2)?.unwrap_or(1);
    ensure_counted(call, (start, delta) == (0, 1))?;
    let count = steps(start, limit, delta).filter(|&count| count <= reef_op::MAX_SIZE);
    let count = count.ok_or_else(|| format!("from {start} to {limit} by {delta}"))?;
    let _numbers = b.ledger.charge(8 * count as u64)?;
    let number = |i: usize| start.wrapping_add((i as i64).wrapping_mul(delta));
    b.whole(vec![count], (0..count).map(number).collect())
}

/// Number of integers from one up to another, which is none of them; `None` if there is no end.
fn steps(start: i64, limit: i64, delta: i64) -> Option<usize> {
    let (apart, delta) = (i128::from(limit) - i128::from(start), i128::from(delta));
    let (apart, each) = (apart * delta.signum(), delta.abs());
    usize::try_from((apart.max(0) + each - 1).checked_div(each)?).ok()
}

fn eye(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let like = call.get(0)?;
    let &[rows, columns] = like.dims() else {
        return Err(format!("must be a matrix, got {}", like.spec));
    };
    let to = call.maybe_int("dtype")?.map_or(Ok(like.element()), element)?;
    let k = call.int("k", 0)?;
    let _numbers = b.ledger.charge(elements(&[rows, columns])? as u64)?;
    let is_one = |i: usize| ((i / columns) as i64).checked_add(k) == Some((i % columns) as i64);
    let ones = (0..rows * columns).map(|i| Truth(is_one(i).into())).collect();
    let ones = b.constant(vec![rows, columns], Array::Bool(ones))?;
    match to {
        Element::Bool => Ok(ones),
        to => b.cast(&ones, to),
    }
}
