//! Reductions, running sums and products, the largest of a row.

use crate::onnx::fault::Result;
use crate::onnx::general::bounds::points::{only, open};
use crate::onnx::general::call::{Call, one};
use crate::onnx::general::operators::places::selected::bounded;
use crate::tensors::axes::axis;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Array, Binary, Element, FoldKind, Scalar, Unary};

pub(in crate::onnx::general::operators) fn reduction(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "ArgMax" => one(place(b, call, true)?),
        "ArgMin" => one(place(b, call, false)?),
        "CumSum" => {
            let x = call.get(0)?;
            let at = call.number(1)?.ok_or("operand 1 is missing")? as i64;
            let (exclusive, reverse) =
                (call.flag("exclusive", false)?, call.flag("reverse", false)?);
            one(b.running(x, axis(at, x.rank())?, exclusive, reverse)?)
        }
        "CumProd" => one(running_product(b, call)?),
        "TopK" => Ok(Some(top(b, call)?)),
        op => match op.strip_prefix("Reduce") {
            Some(kind) => one(reduce(b, call, kind)?),
            None => Ok(None),
        },
    }
}

/// Products of all elements up to each one: each step multiplies by those that are twice as far
/// away as before. Floats are doubles meanwhile, so that products of a part are in range.
fn running_product(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let at = axis(call.number(1)?.ok_or("operand 1 is missing")? as i64, x.rank())?;
    let (exclusive, reverse) = (call.flag("exclusive", false)?, call.flag("reverse", false)?);
    let is_float = x.element().is_float();
    let one = if is_float { Scalar::Real(1.0) } else { Scalar::Whole(1) };
    let shifted = |b: &mut Builder<'_>, value: &Value, by: usize| {
        let (mut before, mut after) = (vec![0; value.rank()], vec![0; value.rank()]);
        let by = by as i64;
        (before[at], after[at]) = if reverse { (-by, by) } else { (by, -by) };
        b.pad(value, &before, &after, one)
    };
    let wide = if is_float { b.cast(x, Element::F64)? } else { x.clone() };
    let mut made = if exclusive { shifted(b, &wide, 1)? } else { wide };
    let mut by = 1;
    while by < x.dims()[at] {
        let others = shifted(b, &made, by)?;
        made = b.binary(Binary::Mul, &made, &others)?;
        by *= 2;
    }
    b.cast(&made, x.element())
}

/// Axes in an attribute or, in newer operator sets, an operand; all of them if there are none.
fn reduce(b: &mut Builder<'_>, call: &Call<'_>, kind: &str) -> Result<Value> {
    let x = call.get(0)?;
    let (keep, nothing) = (call.flag("keepdims", true)?, call.flag("noop_with_empty_axes", false)?);
    let axes = call.axes_of(1, x.rank())?.unwrap_or_default();
    let axes = if axes.is_empty() {
        if nothing {
            return without_axes(b, x, kind);
        }
        (0..x.rank()).collect()
    } else {
        axes
    };
    let made = folded(b, x, kind, &axes)?;
    if keep {
        return Ok(made);
    }
    let dims = (0..x.rank()).filter(|k| !axes.contains(k)).map(|k| x.dims()[k]).collect();
    b.reshape(&made, dims)
}

/// A reduction over no axes: its function of each element.
fn without_axes(b: &mut Builder<'_>, x: &Value, kind: &str) -> Result<Value> {
    match kind {
        "L1" | "L2" => b.unary(Unary::Abs, x),
        "SumSquare" => b.binary(Binary::Mul, x, x),
        "LogSum" => b.unary(Unary::Log, x),
        _ => Ok(x.clone()),
    }
}

fn folded(b: &mut Builder<'_>, x: &Value, kind: &str, axes: &[usize]) -> Result<Value> {
    let wide = b.widened(x)?;
    let made = match kind {
        "Sum" => b.fold_axes(&wide, axes, FoldKind::Sum),
        "Prod" => b.fold_axes(&wide, axes, FoldKind::Product),
        // The largest of no truths is false, which the least of all numbers is not.
        "Max" if x.element() == Element::Bool && x.spec.elements() == 0 => {
            let bytes = b.cast(x, Element::U8)?;
            b.fold_axes(&bytes, axes, FoldKind::Max)
        }
        "Max" => b.fold_axes(&wide, axes, FoldKind::Max),
        "Min" => b.fold_axes(&wide, axes, FoldKind::Min),
        "L1" => b.fold_axes(&wide, axes, FoldKind::SumAbs),
        "SumSquare" => b.fold_axes(&wide, axes, FoldKind::SumSquares),
        "Mean" => b.mean(&wide, axes),
        "L2" => {
            let squares = b.fold_axes(&wide, axes, FoldKind::SumSquares)?;
            b.unary(Unary::Sqrt, &squares)
        }
        "LogSum" => {
            let sum = b.fold_axes(&wide, axes, FoldKind::Sum)?;
            b.unary(Unary::Log, &sum)
        }
        "LogSumExp" => log_sum_exp(b, &wide, axes),
        other => return Err(format!("the operator \"Reduce{other}\" is not supported")),
    };
    b.cast(&made?, x.element())
}

/// `max + ln(sum(exp(x - max)))`, where infinities are left out of the difference.
fn log_sum_exp(b: &mut Builder<'_>, x: &Value, axes: &[usize]) -> Result<Value> {
    let largest = b.fold_axes(x, axes, FoldKind::Max)?;
    let largest = b.map(x.element(), &[&largest], |w| {
        let (most, zero) = (w.input(0), w.real(0.0));
        let infinite = w.un(Unary::IsInf, most);
        w.select(infinite, zero, most)
    })?;
    let shifted = b.binary(Binary::Sub, x, &largest)?;
    let powers = b.unary(Unary::Exp, &shifted)?;
    let sum = b.fold_axes(&powers, axes, FoldKind::Sum)?;
    let logarithm = b.unary(Unary::Log, &sum)?;
    b.binary(Binary::Add, &logarithm, &largest)
}

fn place(b: &mut Builder<'_>, call: &Call<'_>, largest: bool) -> Result<Value> {
    let x = call.get(0)?;
    let at = call.axis(0, x.rank())?;
    let last = call.flag("select_last_index", false)?;
    let kind = if largest { FoldKind::ArgMax { last } } else { FoldKind::ArgMin { last } };
    let made = b.fold_axes(x, &[at], kind)?;
    if call.flag("keepdims", true)? {
        return Ok(made);
    }
    let mut dims = x.dims().to_vec();
    dims.remove(at);
    b.reshape(&made, dims)
}

fn top(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.get(0)?;
    let computed = call.maybe(1).filter(|k| k.known_values().is_none());
    let k = match (call.maybe_int("k")?, computed) {
        (Some(k), _) => k,
        (None, Some(_)) => {
            let len = x.dims().get(call.axis(-1, x.rank())?).map_or(0, |&len| len as i64);
            let most = if call.points(1).is_some() { call.upper_bounds(1)? } else { None };
            most.and_then(|most| most.first().copied()).map_or(len, |most| most.clamp(0, len))
        }
        (None, None) => call.number(1)?.ok_or("operand 1 is missing")? as i64,
    };
    let k = crate::tensors::axes::size(k)?;
    let (at, largest) = (call.axis(-1, x.rank())?, call.flag("largest", true)?);
    call.flag("sorted", true)?; // any order will do if it is not set
    let mut order: Vec<usize> = (0..x.rank()).collect();
    order.swap(at, x.rank() - 1);
    if k == 0 {
        let mut dims = x.dims().to_vec();
        dims[at] = 0;
        let none = |element| b.constant(dims.clone(), Array::with_capacity(element, 0));
        return Ok(vec![none(x.element())?, none(reef_op::tensor::Element::I64)?]);
    }
    let rows = b.transpose(x, &order)?;
    let [values, places] = b.top(&rows, k, largest)?;
    let both = [b.transpose(&values, &order)?, b.transpose(&places, &order)?];
    let Some(computed) = computed else { return Ok(both.into()) };
    let size = match only(open(b, call, 1)?)? {
        Some((_, size)) => size,
        None => {
            let size = b.reshape(computed, Vec::new())?;
            b.cast(&size, reef_op::tensor::Element::I64)?
        }
    };
    let [values, places] = both;
    Ok(vec![bounded(b, call, 0, values, at, &size)?, bounded(b, call, 1, places, at, &size)?])
}
