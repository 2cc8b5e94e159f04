//! Bounds of numbers that are computed of sizes which data decide.
//!
//! They are computed three times when the network is read: of no rows, of as many as there may be,
//! and of a number that stands for this size alone. So a size that is one of these again is told
//! apart from others that are at most the same.

use crate::onnx::fault::{Result, beyond};
use crate::onnx::general::call::{Call, Points};
use crate::onnx::general::marks::Marks;
use crate::tensors::builder::Builder;
use crate::tensors::value::{Bound, Value};
use reef_op::tensor::{Element, Unary};

/// Most elements of a tensor that is followed.
const MAX_ELEMENTS: usize = 64;

/// Operators that are followed: where an operand grows, the result does, or shrinks.
const FOLLOWED: &[&str] = &[
    "Add",
    "Cast",
    "Ceil",
    "Concat",
    "Div",
    "Equal",
    "Expand",
    "Floor",
    "Gather",
    "Identity",
    "Max",
    "Min",
    "Mul",
    "Neg",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "Reshape",
    "Slice",
    "Squeeze",
    "Sub",
    "Unsqueeze",
    "Where",
];

/// Number of rows at each point, if there is a mark for it.
pub(crate) fn sizes(x: &Value, bound: &Bound, marks: &Marks) -> Option<[i64; 3]> {
    Some([0, x.dims()[bound.axis] as i64, marks.of(&bound.size)?])
}

/// Returns the result of `Shape` and `Size` for an operand with a bound; `of` makes it of its
/// sizes.
pub(in crate::onnx::general) fn of_sizes(
    b: &Builder<'_>,
    x: &Value,
    bound: &Bound,
    marks: &Marks,
    of: impl Fn(Vec<i64>) -> (Vec<usize>, Vec<i64>),
) -> Result<Option<Points>> {
    marks.add(&bound.size);
    let Some(sizes) = sizes(x, bound, marks) else { return Ok(None) };
    let mut made = Vec::new();
    for size in sizes {
        let mut dims: Vec<i64> = x.dims().iter().map(|&size| size as i64).collect();
        dims[bound.axis] = size;
        let (dims, numbers) = of(dims);
        made.push(b.whole(dims, numbers)?);
    }
    Ok(made.try_into().ok())
}

/// Points of an operand for each of the three results: what is taken away is least where the
/// result is at its most.
fn turned(op: &str, operand: usize, point: usize) -> usize {
    let shrinks = op == "Neg" || matches!(op, "Sub" | "Div") && operand == 1;
    match point {
        0 | 1 if shrinks => 1 - point,
        point => point,
    }
}

/// Operands at one of the points; `None` if one of them is unknown, or the operator isn't followed.
pub(in crate::onnx::general) fn operands_at<'v>(
    op: &str,
    operands: &[Option<&'v Value>],
    points: &'v [Option<Points>],
    point: usize,
) -> Option<Vec<Option<&'v Value>>> {
    if !FOLLOWED.contains(&op) || points.iter().all(Option::is_none) {
        return None;
    }
    let point = if has_several(op, points) { point.min(1) } else { point };
    let mut all = Vec::new();
    for (index, (operand, points)) in operands.iter().zip(points).enumerate() {
        let value = match (operand, points) {
            (Some(_), Some(points)) => Some(&points[turned(op, index, point)]),
            (operand, _) => *operand,
        };
        let is_small =
            |value: &Value| value.known_values().is_some() && value.spec.elements() <= MAX_ELEMENTS;
        if !value.is_none_or(is_small) {
            return None;
        }
        all.push(value);
    }
    let is_open = match op {
        "Expand" => elements_asked(&all).is_none_or(|count| count > MAX_ELEMENTS as i64),
        "Where" => points.first().is_some_and(|first| !is_fixed(first.as_ref())),
        "Equal" => !is_decided(operands, points),
        "Div" | "Mul" | "ReduceProd" => !is_ordered(op, operands, points),
        // Numbers that are looked up at a place grow in no order.
        "Gather" | "Slice" => points.iter().skip(1).any(|of| !is_fixed(of.as_ref())),
        _ => false,
    };
    (!is_open).then_some(all)
}

/// True if a result is the least or the greatest of several sizes: it is the one or the other, so
/// it has no mark.
fn has_several(op: &str, points: &[Option<Points>]) -> bool {
    let mut marks = Vec::new();
    for [least, most, marked] in points.iter().flatten().map(|points| points.each_ref().map(reals))
    {
        let ends = least.iter().zip(&most).zip(marked);
        marks.extend(ends.filter(|((least, most), _)| least != most).map(|(_, mark)| mark));
    }
    let is_one = marks.iter().all(|mark| Some(mark) == marks.first());
    matches!(op, "Max" | "Min" | "ReduceMax" | "ReduceMin") && !is_one
}

/// Number of elements of the shape that an `Expand` asks for.
fn elements_asked(operands: &[Option<&Value>]) -> Option<i64> {
    let shape = whole(operands.get(1).copied().flatten()?);
    shape.into_iter().try_fold(1i64, |all, size| all.checked_mul(size))
}

/// True if a product or a quotient is at its least and its most where its operands are: of several
/// numbers that data decide none is negative, and no divisor is 0.
fn is_ordered(op: &str, operands: &[Option<&Value>], points: &[Option<Points>]) -> bool {
    let all = |k: usize, fits: fn(f64) -> bool| {
        let least = match points.get(k) {
            Some(Some([least, ..])) => Some(least),
            _ => operands.get(k).copied().flatten(),
        };
        let known = least.and_then(Value::known_values);
        known.is_none_or(|known| known.array.values().to_f64().into_iter().all(fits))
    };
    let is_open = |k: usize| points.get(k).is_some_and(|points| !is_fixed(points.as_ref()));
    let is_not_negative = |k: usize| all(k, |number| number >= 0.0);
    match op {
        "Mul" => !is_open(0) || !is_open(1) || is_not_negative(0) && is_not_negative(1),
        "Div" => !is_open(1) || is_not_negative(0) && all(1, |number| number > 0.0),
        _ => is_not_negative(0),
    }
}

/// True if numbers of one type are others, or in another order, as another one: as truth values -1
/// and 1 are the same, and 0 is less.
pub(in crate::onnx::general) fn is_narrower(from: Element, to: Element) -> bool {
    to.bytes() < from.bytes().min(4)
}

/// True if two operands are equal at all sizes or at none, each pair of numbers.
fn is_decided(operands: &[Option<&Value>], points: &[Option<Points>]) -> bool {
    let ends = |k: usize| match (points.get(k), operands.get(k)) {
        (Some(Some([least, most, _])), _) => [reals(least), reals(most)],
        (_, Some(Some(value))) => [reals(value), reals(value)],
        _ => [Vec::new(), Vec::new()],
    };
    let ([low, high], [other_low, other_high]) = (ends(0), ends(1));
    let at = |list: &[f64], k: usize| list.get(if list.len() == 1 { 0 } else { k }).copied();
    (0..low.len().max(other_low.len())).all(|k| {
        let own = at(&low, k).zip(at(&high, k));
        let other = at(&other_low, k).zip(at(&other_high, k));
        own.zip(other).is_some_and(|((low, high), (other_low, other_high))| {
            low == high && other_low == other_high || high < other_low || other_high < low
        })
    })
}

/// True if a value is the same at all points.
fn is_fixed(points: Option<&Points>) -> bool {
    points.is_none_or(|points| points.iter().all(|point| reals(point) == reals(&points[0])))
}

/// Three results as points, if they are known and few, of one shape, and the first ones the least.
pub(in crate::onnx::general) fn joined(made: Vec<Value>) -> Option<Points> {
    let is_one =
        |value: &Value| value.known_values().is_some() && value.spec.elements() <= MAX_ELEMENTS;
    let points: Points = made.iter().all(is_one).then_some(made)?.try_into().ok()?;
    let [least, most] = [reals(&points[0]), reals(&points[1])];
    let fits = points.iter().all(|point| point.dims() == points[0].dims())
        && least.iter().zip(&most).all(|(least, most)| least <= most);
    fits.then_some(points)
}

/// Numbers of a known value, with their fractions.
fn reals(value: &Value) -> Vec<f64> {
    value.known_values().map_or(Vec::new(), |known| known.array.values().to_f64())
}

/// Integers of a known value.
pub(crate) fn whole(value: &Value) -> Vec<i64> {
    value.known_values().map_or(Vec::new(), |known| known.array.values().to_i64())
}

/// The integer that each number of a value is, or the next one above it.
fn rounded_up(b: &mut Builder<'_>, value: &Value) -> Result<Value> {
    if !value.element().is_float() {
        return Ok(value.clone());
    }
    let above = b.unary(Unary::Ceil, value)?;
    b.cast(&above, Element::I64)
}

/// Places of operand `index` whose numbers data decide, with these numbers. Floats are the ends of
/// a `Range`, which has all integers below them.
pub(crate) fn open(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    index: usize,
) -> Result<Vec<(usize, Value)>> {
    let Some(points) = call.points(index) else { return Ok(Vec::new()) };
    let [least, most, marked] = points;
    let (least, most) = (rounded_up(b, least)?, rounded_up(b, most)?);
    let marked = rounded_up(b, marked)?;
    let [least, most, marked] = [least, most, marked].each_ref().map(whole);
    let value = &rounded_up(b, call.get(index)?)?;
    let mut all = Vec::new();
    for place in (0..most.len()).filter(|&place| least[place] != most[place]) {
        let size = match call.marks.get(marked[place]).filter(|_| least[place] == 0) {
            Some(size) => size,
            None => {
                let flat = b.reshape(value, vec![most.len()])?;
                let number = b.cut(&flat, 0, place, place + 1)?;
                b.reshape(&number, Vec::new())?
            }
        };
        let size = b.reshape(&size, Vec::new())?;
        all.push((place, b.cast(&size, Element::I64)?));
    }
    Ok(all)
}

/// The only one of these; `None` if there is none.
pub(crate) fn only(open: Vec<(usize, Value)>) -> Result<Option<(usize, Value)>> {
    match open.len() {
        0 | 1 => Ok(open.into_iter().next()),
        count => Err(beyond(&format!(
            "data decide about {count} sizes, of which there may be one: export the file with \
             fixed numbers"
        ))),
    }
}
