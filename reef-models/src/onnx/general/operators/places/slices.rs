//! Parts of tensors.

use crate::onnx::fault::Result;
use crate::onnx::general::bounds::points;
use crate::onnx::general::call::{Call, one};
use crate::onnx::general::operators::elements::cast::sizes;
use crate::onnx::general::operators::places::indexed::rows_at;
use crate::tensors::axes::axis;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Domain, Element, Scalar};

pub(in crate::onnx::general::operators) fn slice(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "Slice" => one(part(b, call)?),
        "Split" => Ok(Some(split(b, call)?)),
        "ReverseSequence" => one(reverse(b, call)?),
        _ => Ok(None),
    }
}

fn part(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let starts = call.ints_of("starts", 1)?.ok_or("operand 1 is missing")?;
    let ends = match call.ints("ends")? {
        Some(list) => list.to_vec(),
        None => bounds_of_ends(call)?.ok_or("operand 2 is missing")?,
    };
    let first = || (0..starts.len() as i64).collect();
    let axes: Vec<i64> = call.ints_of("axes", 3)?.unwrap_or_else(first);
    let steps = call.numbers(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return Err(format!("starts {starts:?}, ends {ends:?}, axes {axes:?}, steps {steps:?}"));
    }
    let mut places = b.places(x.dims())?;
    for (k, &number) in axes.iter().enumerate() {
        let at = axis(number, x.rank())?;
        places[at] = strided(x.dims()[at], starts[k], ends[k], steps[k])?;
    }
    b.pick(x, places, Scalar::Whole(0))
}

/// Known ends, or the most that data make them. A negative end counts from the last row, so that it
/// may be any.
fn bounds_of_ends(call: &Call<'_>) -> Result<Option<Vec<i64>>> {
    let mut ends = call.upper_bounds(2)?;
    if let (Some(ends), Some(points)) = (&mut ends, call.points(2)) {
        for (end, least) in ends.iter_mut().zip(points::whole(&points[0])) {
            if least < 0 && least != *end {
                *end = i64::MAX;
            }
        }
    }
    Ok(ends)
}

/// Places from `start` to `end`, as Python counts them.
fn strided(size: usize, start: i64, end: i64, step: i64) -> Result<Vec<usize>> {
    let size = size as i64;
    let (least, most) = if step > 0 { (0, size) } else { (-1, size - 1) };
    let bound = |place: i64| {
        if place < 0 { place.saturating_add(size).max(least) } else { place.min(most) }
    };
    // A start beyond either end is the outermost element on the way.
    let (start, end) = (bound(start).clamp(most.min(0), most), bound(end));
    let count = match step {
        0 => return Err("a step of 0".into()),
        1.. => (end - start).max(0) as u64,
        _ => (start - end).max(0) as u64,
    };
    let count = count.div_ceil(step.unsigned_abs());
    Ok((0..count as i64).map(|i| (start + i * step) as usize).collect())
}

fn split(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.get(0)?;
    let at = call.axis(0, x.rank())?;
    let size = x.dims()[at];
    let parts = match call.ints_of("split", 1)? {
        Some(list) => sizes(&list)?,
        None => {
            let parts = call.int("num_outputs", call.results() as i64)?;
            let parts = usize::try_from(parts)
                .ok()
                .filter(|&parts| parts > 0 && parts <= call.results().max(1));
            let parts = parts.ok_or("a number of parts that is not that of its outputs")?;
            let each = size.div_ceil(parts);
            (0..parts).map(|k| size.saturating_sub(k * each).min(each)).collect()
        }
    };
    if parts.iter().fold(0usize, |sum, &part| sum.saturating_add(part)) != size {
        return Err(format!("parts {parts:?} of {size}"));
    }
    let mut from = 0;
    let mut cut = |&part: &usize| {
        from += part;
        b.cut(x, at, from - part, from)
    };
    parts.iter().map(&mut cut).collect()
}

/// Each row of a batch turned round up to a length of its own.
fn reverse(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let batch = axis(call.int("batch_axis", 1)?, x.rank())?;
    let time = axis(call.int("time_axis", 0)?, x.rank())?;
    let computed = call.maybe(1).filter(|lengths| lengths.known_values().is_none());
    if let Some(lengths) = computed {
        return reversed(b, x, lengths, [batch, time]);
    }
    let lengths = sizes(&call.numbers(1)?.ok_or("operand 1 is missing")?)?;
    let long = lengths.iter().any(|&length| length > x.dims()[time]);
    if lengths.len() != x.dims()[batch] || batch == time || long {
        return Err(format!("lengths {lengths:?} of {}", x.spec));
    }
    if lengths.is_empty() {
        return Ok(x.clone());
    }
    let mut rows = Vec::new();
    for (k, &length) in lengths.iter().enumerate() {
        let row = b.cut(x, batch, k, k + 1)?;
        let place = |i: usize| if i < length { length - 1 - i } else { i };
        rows.push(b.pick_axis(&row, time, (0..x.dims()[time]).map(place).collect())?);
    }
    b.concat(&rows.iter().collect::<Vec<_>>(), batch)
}

/// As [`reverse`], by lengths that data decide: each place looks up its element. A length beyond
/// the row is that of the row.
fn reversed(
    b: &mut Builder<'_>,
    x: &Value,
    lengths: &Value,
    [batch, time]: [usize; 2],
) -> Result<Value> {
    let (rows, steps) = (x.dims()[batch], x.dims()[time]);
    if lengths.dims() != [rows] || lengths.element().is_float() || batch == time {
        return Err(format!("lengths {} of {}", lengths.spec, x.spec));
    }
    if x.spec.elements() == 0 {
        return Ok(x.clone());
    }
    let others = (0..x.rank()).filter(|&k| k != batch && k != time);
    let order: Vec<usize> = [batch, time].into_iter().chain(others).collect();
    let turned = b.transpose(x, &order)?;
    let table = b.reshape(&turned, vec![rows * steps, x.spec.elements() / (rows * steps)])?;
    let lengths = b.reshape(lengths, vec![rows, 1])?;
    let (row, step) = (b.count(vec![rows, 1])?, b.count(vec![1, steps])?);
    let places = b.map_in(Domain::I64, Element::I64, &[&row, &step, &lengths], |w| {
        let (row, step, length) = (w.input(0), w.input(1), w.input(2));
        let (steps, one) = (w.whole(steps as i64), w.whole(1));
        let length = w.bin(Binary::Min, length, steps);
        let last = w.sub(length, one);
        let from_end = w.sub(last, step);
        let is_turned = w.bin(Binary::Less, step, length);
        let step = w.select(is_turned, from_end, step);
        let before = w.mul(row, steps);
        w.add(before, step)
    })?;
    let made = rows_at(b, &table, &places)?;
    let made = b.reshape(&made, turned.dims().to_vec())?;
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(k, &from)| back[from] = k);
    b.transpose(&made, &back)
}
