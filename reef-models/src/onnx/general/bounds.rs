//! Sizes that data decide, from operands to results.
//!
//! A network computes as many rows as there may be, and those behind the real ones are without
//! meaning. So an operator may have such an operand if no result depends on rows of another number:
//! the size goes on to the result then. Some others count the real rows alone. The rest refuse it.

use super::call::Call;
use crate::onnx::fault::Result;
use crate::tensors::axes::{axes, axis};
use crate::tensors::builder::Builder;
use crate::tensors::value::{Bound, Value, ValueData};
use reef_core::tensor::{Binary, Element};

/// Operators that compute each element by itself.
const ELEMENTWISE: &[&str] = &[
    "Abs",
    "Add",
    "And",
    "Cast",
    "Ceil",
    "Clip",
    "Cos",
    "Div",
    "Dropout",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "Greater",
    "GreaterOrEqual",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "IsInf",
    "IsNaN",
    "LeakyRelu",
    "Less",
    "LessOrEqual",
    "Log",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "Pow",
    "PRelu",
    "Reciprocal",
    "Relu",
    "Round",
    "Sigmoid",
    "Sign",
    "Sin",
    "Softplus",
    "Sqrt",
    "Sub",
    "Sum",
    "Tanh",
    "Where",
    "Xor",
];

/// Operators whose results are those of the real rows, and have sizes of their own.
const COUNTING: &[&str] = &["NonMaxSuppression", "Shape"];

/// The size that data decide about the results of a node, of which some operand has one.
///
/// # Errors
///
/// In words that follow the node's name, if the operator can't have such an operand.
pub(super) fn of_results(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    results: &[Value],
) -> Result<Vec<Option<Bound>>> {
    let given = &*call.given;
    let first = given.iter().position(Option::is_some).unwrap_or_default();
    let refused = || {
        format!(
            "data decide about a size of operand {first}, which this operator can't have: let the \
             network end before it, or export the file with a fixed number"
        )
    };
    let Some(bound) = given.iter().flatten().next() else { return Ok(vec![None; results.len()]) };
    if COUNTING.contains(&call.op()) {
        return Ok(vec![None; results.len()]);
    }
    let x = call.operands.get(first).copied().flatten().ok_or_else(refused)?;
    let at = bound.axis;
    let of = |axis: usize| Some(Bound { axis, size: bound.size.clone() });
    let is_alone = given.iter().flatten().count() == 1;
    let found = match call.op() {
        op if ELEMENTWISE.contains(&op) => {
            let axis = elementwise(call, given, &results[0]).ok_or_else(refused)?;
            of(axis)
        }
        "Unsqueeze" => moved_by_new(call, &results[0], at)?.and_then(of),
        "Squeeze" => without(call, x, at)?.and_then(of),
        "Transpose" => {
            let usual: Vec<i64> = (0..x.rank() as i64).rev().collect();
            let order = call.ints("perm")?.map_or(usual, <[i64]>::to_vec);
            order.iter().position(|&from| from == at as i64).and_then(of)
        }
        "Gather" if is_alone => gathered(call, first, at)?.and_then(of),
        "GatherND" if is_alone && first == 1 && at + 1 < x.rank() => of(at),
        "Slice" if first == 0 => sliced(b, call, bound, x, &results[0])?,
        "Concat" if is_same(given, results[0].rank(), call.operands.len()) => {
            let along = axis(call.int("axis", 0)?, results[0].rank())?;
            of(at).filter(|_| along != at)
        }
        "Split" if is_alone => {
            let along = axis(call.int("axis", 0)?, x.rank())?;
            let each = of(at).filter(|_| along != at).ok_or_else(refused)?;
            return Ok(vec![Some(each); results.len()]);
        }
        "Reshape" | "Flatten" if is_alone => same_place(x, at, &results[0]).and_then(of),
        "MatMul"
            if first == 0 && is_alone && at + 1 < x.rank() && results[0].rank() == x.rank() =>
        {
            of(at)
        }
        _ => None,
    };
    let found = found.ok_or_else(refused)?;
    Ok(results.iter().map(|_| Some(found.clone())).collect())
}

/// True if two sizes are the same value.
fn same_size(a: &Bound, b: &Bound) -> bool {
    matches!((&a.size.data, &b.size.data), (ValueData::Storage(a), ValueData::Storage(b)) if a == b)
}

/// True if all operands have the same size along the same axis.
fn is_same(given: &[Option<Bound>], rank: usize, operands: usize) -> bool {
    let mut all = given.iter().flatten();
    let Some(first) = all.next() else { return false };
    let same = |other: &Bound| other.axis == first.axis && same_size(first, other);
    first.axis < rank && given.iter().flatten().count() == operands && all.all(same)
}

/// Axis of a result to which operands are broadcast: other operands have one element along it, or
/// the same number.
fn elementwise(call: &Call<'_>, given: &[Option<Bound>], result: &Value) -> Option<usize> {
    let mut found: Option<(usize, &Bound)> = None;
    for (operand, bound) in call.operands.iter().zip(given) {
        let (Some(operand), Some(bound)) = (operand, bound) else { continue };
        let axis = result.rank() - operand.rank() + bound.axis;
        match found {
            Some((other, first)) if other != axis || !same_size(first, bound) => return None,
            _ => found = Some((axis, bound)),
        }
    }
    let (axis, _) = found?;
    let fits = |(operand, bound): (&Option<&Value>, &Option<Bound>)| match (operand, bound) {
        (Some(operand), None) => {
            let missing = result.rank() - operand.rank();
            axis < missing || operand.dims()[axis - missing] == 1
        }
        _ => true,
    };
    call.operands.iter().zip(given).all(fits).then_some(axis)
}

/// Number of an axis among new ones.
fn moved_by_new(call: &Call<'_>, result: &Value, at: usize) -> Result<Option<usize>> {
    let Some(list) = call.ints_of("axes", 1)? else { return Ok(None) };
    let new = axes(&list, result.rank())?;
    Ok((0..result.rank()).filter(|axis| !new.contains(axis)).nth(at))
}

/// Number of an axis when others are gone.
fn without(call: &Call<'_>, x: &Value, at: usize) -> Result<Option<usize>> {
    let Some(list) = call.ints_of("axes", 1)? else { return Ok(None) };
    let gone = axes(&list, x.rank())?;
    Ok((0..x.rank()).filter(|axis| !gone.contains(axis)).position(|axis| axis == at))
}

/// Axis of what is looked up: along another one, or by as many indices.
fn gathered(call: &Call<'_>, operand: usize, at: usize) -> Result<Option<usize>> {
    let (x, indices) = (call.get(0)?, call.get(1)?);
    let along = call.axis(0, x.rank())?;
    Ok(match operand {
        1 => Some(along + at),
        _ if along == at => None,
        _ if at < along => Some(at),
        _ => Some(at - 1 + indices.rank()),
    })
}

/// Size of a part: of other axes all of it, of this one the first rows.
fn sliced(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    bound: &Bound,
    x: &Value,
    result: &Value,
) -> Result<Option<Bound>> {
    let Some(starts) = call.ints_of("starts", 1)? else { return Ok(None) };
    let all: Vec<i64> = (0..starts.len() as i64).collect();
    let list = call.ints_of("axes", 3)?.unwrap_or(all);
    let steps = call.numbers(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    let ends = call.ints_of("ends", 2)?.unwrap_or_default();
    let along = axes(&list, x.rank())?.iter().position(|&axis| axis == bound.axis);
    let Some(k) = along else { return Ok(Some(bound.clone())) };
    if (starts[k], steps[k]) != (0, 1) || ends[k] < 0 {
        return Ok(None);
    }
    let most = result.dims()[bound.axis] as i64;
    let size = b.map(Element::I64, &[&bound.size], |w| {
        let (size, most) = (w.input(0), w.whole(most));
        w.bin(Binary::Min, size, most)
    })?;
    Ok(Some(Bound { axis: bound.axis, size }))
}

/// Axis of another shape that has the same rows.
fn same_place(x: &Value, at: usize, result: &Value) -> Option<usize> {
    let product = |dims: &[usize]| dims.iter().product::<usize>();
    let (outer, len) = (product(&x.dims()[..at]), x.dims()[at]);
    let dims = result.dims();
    (0..dims.len()).find(|&k| dims[k] == len && product(&dims[..k]) == outer)
}
