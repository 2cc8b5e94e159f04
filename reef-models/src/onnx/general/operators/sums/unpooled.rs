//! Operators that put elements back where windows took them from.

use super::window::{factors, kernel};
use crate::onnx::fault::Result;
use crate::onnx::general::call::{Call, one};
use crate::onnx::general::operators::elements::cast::sizes;
use crate::onnx::general::operators::places::indexed::scattered;
use crate::tensors::axes::{elements, size};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Scalar, ScatterKind, Target};

pub(in crate::onnx::general::operators) fn unpooled(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "Col2Im" => one(image(b, call)?),
        "MaxUnpool" => one(largest(b, call)?),
        _ => Ok(None),
    }
}

fn zeros(b: &mut Builder<'_>, like: &Value, dims: &[usize]) -> Result<Value> {
    let zero = b.scalar(like.element(), 0.0)?;
    b.expand(&zero, dims)
}

/// The input of a pool, of which it kept the largest elements alone. Places are those of
/// the result, as ONNX Runtime has it where its sizes are given.
fn largest(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, places) = (call.get(0)?, call.get(1)?);
    let space = x.rank().saturating_sub(2);
    let window = kernel(call, "kernel_shape", space)?.ok_or("attribute kernel_shape is missing")?;
    let stride = factors(call, "strides", space)?;
    let none = vec![0; 2 * space];
    let pads = call.ints("pads")?.unwrap_or(&none);
    if places.dims() != x.dims() || pads.len() != 2 * space || space == 0 {
        return Err(format!("places {} of {}", places.spec, x.spec));
    }
    let dims = match call.numbers(2)? {
        Some(given) if given.len() == x.rank() => sizes(&given)?,
        Some(given) => return Err(format!("sizes {given:?} for {}", x.spec)),
        None => {
            let along = |k: usize| {
                let steps = x.dims()[k + 2].saturating_sub(1) as i128 * stride[k] as i128;
                let padding = i128::from(pads[k]) + i128::from(pads[space + k]);
                let along = steps + window[k] as i128 - padding;
                usize::try_from(along).map_err(|_| format!("a size of {along}"))
            };
            let along = (0..space).map(along).collect::<Result<Vec<_>>>()?;
            [&x.dims()[..2], &along].concat()
        }
    };
    let all = elements(&dims)?;
    let empty = zeros(b, x, &dims)?;
    if all == 0 {
        return Ok(empty);
    }
    let tuples = x.spec.elements();
    let target = Target::Tuples { batches: 1, shared: false, sizes: vec![all], inner: 1, tuples };
    scattered(b, [&empty, places, x], target, ScatterKind::Replace)
}

/// Sums of the columns that windows over an image gave. Operands: columns, sizes of the image and
/// of a window.
fn image(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let given = |index| sizes(&call.numbers(index)?.ok_or(format!("operand {index} is missing"))?);
    let (image, window) = (given(1)?, given(2)?);
    let space = image.len();
    let [stride, dilation] = ["strides", "dilations"].map(|name| factors(call, name, space));
    let (stride, dilation) = (stride?, dilation?);
    let none = vec![0; 2 * space];
    let pads = call.ints("pads")?.unwrap_or(&none);
    let pads = pads.iter().map(|&pad| size(pad)).collect::<Result<Vec<_>>>()?;
    let (taps, &[batches, rows, columns]) = (elements(&window)?, x.dims()) else {
        return Err(format!("columns {}", x.spec));
    };
    if space == 0 || window.len() != space || pads.len() != 2 * space || taps == 0 {
        return Err(format!("windows of {window:?} over {image:?}"));
    }
    let along = |k: usize| image[k].saturating_add(pads[k]).saturating_add(pads[space + k]);
    let padded: Vec<usize> = (0..space).map(along).collect();
    let all = elements(&padded)?;
    let count = |k: usize| {
        let reach = (window[k] - 1) * dilation[k] + 1;
        padded[k].checked_sub(reach).map(|steps| steps / stride[k] + 1)
    };
    let counts: Option<Vec<usize>> = (0..space).map(count).collect();
    let counts = counts.filter(|counts| counts.iter().product::<usize>() == columns);
    let counts = counts.filter(|_| rows.is_multiple_of(taps));
    let counts =
        counts.ok_or_else(|| format!("columns {} of {window:?} over {image:?}", x.spec))?;
    let _making = b.ledger.charge(8 * elements(&[taps, columns])? as u64)?;
    let place = |i: usize| {
        let (mut tap, mut at, mut place, mut inner) = (i / columns, i % columns, 0, 1);
        for k in (0..space).rev() {
            let along = at % counts[k] * stride[k] + tap % window[k] * dilation[k];
            (place, inner) = (place + along * inner, inner * padded[k]);
            (at, tap) = (at / counts[k], tap / window[k]);
        }
        place as i64
    };
    let places = b.whole(vec![taps * columns], (0..taps * columns).map(place).collect())?;
    let images = batches * (rows / taps);
    let (wide, sizes, tuples) = (b.widened(x)?, vec![all], taps * columns);
    let empty = zeros(b, &wide, &[&[images], &*padded].concat())?;
    let target = Target::Tuples { batches: images, shared: true, sizes, inner: 1, tuples };
    let made = scattered(b, [&empty, &places, &wide], target, ScatterKind::Add)?;
    let off = |side: &[usize]| [0].into_iter().chain(side.iter().map(|&p| -(p as i64))).collect();
    let [before, after]: [Vec<i64>; 2] = [off(&pads[..space]), off(&pads[space..])];
    let made = b.pad(&made, &before, &after, Scalar::Whole(0))?;
    let made = b.reshape(&made, [&[batches, rows / taps], &*image].concat())?;
    b.cast(&made, x.element())
}
