//! Sizes that data decide, in another shape of the same elements.
//!
//! In: the size of an operand of `Reshape` or `Flatten`. Out: that of the result, along one axis.
//! All other sizes are fixed.

use super::points::whole;
use crate::onnx::fault::{Result, beyond};
use crate::onnx::general::call::Call;
use crate::tensors::builder::Builder;
use crate::tensors::value::{Bound, Value};
use reef_op::tensor::{Binary, Element};

/// The axis of a new shape whose size the rows decide, if the shape leaves one open.
fn opened(call: &Call<'_>, bound: &Bound) -> Result<Option<usize>> {
    if call.op() == "Flatten" {
        let (number, rank) = (call.int("axis", 1)?, call.get(0)?.rank() as i64);
        let first = if number < 0 { number + rank } else { number };
        return Ok(Some(usize::from(bound.axis as i64 >= first)));
    }
    if let Some(axis) = opened_by_data(call, bound)? {
        return Ok(Some(axis));
    }
    let asked = match call.ints("shape")? {
        Some(list) => list.to_vec(),
        None => call.upper_bounds(1)?.unwrap_or_default(),
    };
    let keeps_zero = call.flag("allowzero", false)?;
    if !keeps_zero && asked.get(bound.axis) == Some(&0) {
        return Ok(Some(bound.axis));
    }
    Ok(asked.iter().position(|&size| size == -1))
}

/// The axis of a new shape about which data decide. Others must be the same for each number of
/// rows.
fn opened_by_data(call: &Call<'_>, bound: &Bound) -> Result<Option<usize>> {
    let Some(points) = call.points(1) else { return Ok(None) };
    let (x, lists) = (call.get(0)?, points.each_ref().map(whole));
    let is_open = |place: &usize| lists[0][*place] != lists[1][*place];
    let mut all = (0..lists[0].len()).filter(is_open);
    let Some(axis) = all.next() else { return Ok(None) };
    let copies = !call.flag("allowzero", false)? && lists[1].get(bound.axis) == Some(&0);
    let [_, most, marked] = &lists;
    let is_fixed = || {
        let rest = rest_of(x, bound, x.dims()[bound.axis] as i64, most);
        let numbers = [call.marks.of(&bound.size), call.marks.number(&bound.size)];
        let mut rests = numbers.into_iter().flatten().map(|rows| rest_of(x, bound, rows, marked));
        rest.is_some() && rests.any(|other| other == rest)
    };
    if all.next().is_some() || copies || most.contains(&-1) && !is_fixed() {
        return Err(beyond("data decide about several sizes of a shape: fix all but one"));
    }
    Ok(Some(axis))
}

/// The size for which a shape has -1, with this number of rows.
fn rest_of(x: &Value, bound: &Bound, rows: i64, shape: &[i64]) -> Option<i128> {
    let size = |axis: usize| if axis == bound.axis { rows } else { x.dims()[axis] as i64 };
    let elements = (0..x.rank()).map(|axis| i128::from(size(axis))).product::<i128>();
    let others = shape.iter().enumerate().filter(|&(_, &asked)| asked != -1);
    let mut others = others.map(|(place, &asked)| match asked {
        0 if place < x.rank() => i128::from(size(place)),
        asked => i128::from(asked),
    });
    let others = others.try_fold(1i128, |all, size| all.checked_mul(size))?;
    (others != 0 && elements % others == 0).then(|| elements / others)
}

/// The size in another shape that has the same elements first: of the same rows, of several for
/// each, or of one for several.
pub(super) fn same_place(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    bound: &Bound,
    result: &Value,
) -> Result<Option<Bound>> {
    let (x, open) = (call.get(0)?, opened(call, bound)?);
    let product = |dims: &[usize]| dims.iter().product::<usize>();
    let (at, len) = (bound.axis, x.dims()[bound.axis]);
    let (outer, dims) = (product(&x.dims()[..at]), result.dims());
    let begins = |k: &usize| open.is_none_or(|axis| axis == *k) && product(&dims[..*k]) == outer;
    let places = || (0..dims.len()).filter(begins);
    if let Some(axis) = places().find(|&k| dims[k] == len) {
        return Ok(Some(Bound { axis, size: bound.size.clone() }));
    }
    let Some(axis) = places().find(|&k| dims[k] > 1) else { return Ok(None) };
    let size = dims[axis];
    let function = match (size.is_multiple_of(len.max(1)), len.is_multiple_of(size)) {
        (true, _) if size > len => Binary::Mul,
        (_, true) => Binary::Div,
        _ => return Ok(None),
    };
    let factor = if function == Binary::Mul { size / len.max(1) } else { len / size };
    let factor = factor as i64;
    let number = call.marks.number(&bound.size).and_then(|mark| match function {
        Binary::Mul => mark.checked_mul(factor),
        _ => (mark % factor == 0).then_some(mark / factor),
    });
    if let Some(size) = number.and_then(|number| call.marks.get(number)) {
        return Ok(Some(Bound { axis, size })); // that of which this one was computed
    }
    let size = b.map(Element::I64, &[&bound.size], |w| {
        let (size, factor) = (w.input(0), w.whole(factor));
        w.bin(function, size, factor)
    })?;
    if let Some(number) = number {
        call.marks.set_computed(&size, number);
    }
    Ok(Some(Bound { axis, size }))
}
