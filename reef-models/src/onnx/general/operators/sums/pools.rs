//! Pools over one to three axes.

use super::window::{Sliding, kernel};
use crate::onnx::fault::Result;
use crate::onnx::general::call::{Call, one};
use crate::tensors::axes::elements;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use crate::tensors::windows::windows;
use reef_op::tensor::{
    Array, Binary, Domain, Element, FoldKind, Gather, Kind, Scalar, Spec, Target, Unary, View,
};

pub(in crate::onnx::general::operators) fn pool(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "MaxPool" => Ok(Some(max(b, call, call.get(0)?)?)),
        "AveragePool" => one(average(b, call, call.get(0)?)?),
        "LpPool" => {
            let x = call.get(0)?;
            let window = over(call, x)?;
            let p = call.int("p", 2)? as f64;
            let powers = powers(b, x, p)?;
            let (padded, [kept, taps], dims) = pad_and_view(b, &powers, &window, Scalar::Whole(0))?;
            let sum = b.fold_view(&padded, kept, taps, dims, FoldKind::Sum)?;
            let root = b.with_number(Binary::Pow, &sum, 1.0 / p)?;
            one(b.cast(&root, x.element())?)
        }
        "GlobalAveragePool" => {
            let x = call.get(0)?;
            let (axes, wide) = (space(x)?, b.widened(x)?);
            let mean = b.mean(&wide, &axes)?;
            one(b.cast(&mean, x.element())?)
        }
        "GlobalMaxPool" => {
            let axes = space(call.get(0)?)?;
            one(b.fold_axes(call.get(0)?, &axes, FoldKind::Max)?)
        }
        "GlobalLpPool" => {
            let x = call.get(0)?;
            let axes = space(x)?;
            let p = call.int("p", 2)? as f64;
            let powers = powers(b, x, p)?;
            let sum = b.fold_axes(&powers, &axes, FoldKind::Sum)?;
            let root = b.with_number(Binary::Pow, &sum, 1.0 / p)?;
            one(b.cast(&root, x.element())?)
        }
        _ => Ok(None),
    }
}

/// `|x|` to the power of `p`, in a wide type.
fn powers(b: &mut Builder<'_>, x: &Value, p: f64) -> Result<Value> {
    let wide = b.widened(x)?;
    let magnitudes = b.unary(Unary::Abs, &wide)?;
    b.with_number(Binary::Pow, &magnitudes, p)
}

/// All axes behind batch and channels.
fn space(x: &Value) -> Result<Vec<usize>> {
    if x.rank() < 3 { Err(format!("a pool of {}", x.spec)) } else { Ok((2..x.rank()).collect()) }
}

/// The window that the attributes describe.
fn over(call: &Call<'_>, x: &Value) -> Result<Sliding> {
    space(x)?;
    let size =
        kernel(call, "kernel_shape", x.rank() - 2)?.ok_or("attribute kernel_shape is missing")?;
    Sliding::of(call, size, &x.dims()[2..])
}

/// The padded input, what windows see of it, and the sizes of the result.
fn pad_and_view(
    b: &mut Builder<'_>,
    x: &Value,
    window: &Sliding,
    fill: Scalar,
) -> Result<(Value, [View; 2], Vec<usize>)> {
    let behind = |k: usize| window.behind(k, x.dims()[k + 2]);
    let before = [&[0, 0], &*window.before].concat();
    let after: Vec<i64> = [0, 0].into_iter().chain((0..window.size.len()).map(behind)).collect();
    let padded = b.pad(x, &before, &after, fill)?;
    let views =
        windows(padded.dims(), &window.count, &window.size, &window.stride, &window.dilation);
    Ok((padded, views, [&x.dims()[..2], &window.count].concat()))
}

/// Means of `x` over the window that the attributes describe.
pub(in crate::onnx::general::operators) fn average(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    x: &Value,
) -> Result<Value> {
    let (window, element) = (over(call, x)?, x.element());
    let x = &b.widened(x)?;
    let (padded, [kept, taps], dims) = pad_and_view(b, x, &window, Scalar::Whole(0))?;
    let sum = b.fold_view(&padded, kept, taps, dims, FoldKind::Sum)?;
    let counts = counts(b, x, &window, call.flag("count_include_pad", false)?)?;
    let made = b.binary(Binary::Div, &sum, &counts)?;
    b.cast(&made, element)
}

/// Number of elements of each mean. Padding counts if the node says so; what is behind it never
/// does.
fn counts(b: &mut Builder<'_>, x: &Value, window: &Sliding, with_padding: bool) -> Result<Value> {
    let ones = b.scalar(x.element(), 1.0)?;
    let mut plain = x.dims().to_vec();
    plain[..2].fill(1);
    let ones = b.expand(&ones, &plain)?;
    let zeros = vec![0; window.size.len()];
    let ones = if with_padding {
        let (before, after) =
            ([&[0, 0], &*window.before].concat(), [&[0, 0], &*window.after].concat());
        b.pad(&ones, &before, &after, Scalar::Whole(1))?
    } else {
        ones
    };
    let window = if with_padding {
        Sliding { before: zeros.clone(), after: zeros, ..window.clone() }
    } else {
        window.clone()
    };
    let (padded, [kept, taps], dims) = pad_and_view(b, &ones, &window, Scalar::Whole(0))?;
    b.fold_view(&padded, kept, taps, dims, FoldKind::Sum)
}

/// Largest elements of `x` in the window that the attributes describe, and their places if the node
/// names them.
pub(in crate::onnx::general::operators) fn max(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    x: &Value,
) -> Result<Vec<Value>> {
    let window = over(call, x)?;
    let by_column = call.flag("storage_order", false)?;
    let least = if x.element().is_float() {
        Scalar::Real(f64::NEG_INFINITY)
    } else {
        Scalar::Whole(min_value(x.element()))
    };
    let (padded, [kept, taps], dims) = pad_and_view(b, x, &window, least)?;
    let largest = b.fold_view(&padded, kept.clone(), taps.clone(), dims.clone(), FoldKind::Max)?;
    if !call.wants(1) {
        return Ok(vec![largest]);
    }
    let which = b.fold_view(&padded, kept, taps, dims, FoldKind::ArgMax { last: false })?;
    let which = on_input(b, &window, &which)?;
    Ok(vec![largest, places(b, x, &window, &which, by_column)?])
}

/// The smallest number of an integer type.
fn min_value(element: Element) -> i64 {
    match element {
        Element::I64 => i64::MIN,
        Element::I32 => i32::MIN.into(),
        Element::I16 => i16::MIN.into(),
        Element::I8 => i8::MIN.into(),
        _ => 0,
    }
}

/// Numbers of taps, of which those on padding before the input are the first on the input: padding
/// is the least number, and so may be all that a window sees.
fn on_input(b: &mut Builder<'_>, window: &Sliding, which: &Value) -> Result<Value> {
    if window.before.iter().all(|&before| before <= 0) {
        return Ok(which.clone());
    }
    let strides = View::dense(&window.size).strides;
    let mut made: Option<Value> = None;
    for (k, &count) in window.count.iter().enumerate() {
        let first = |i: usize| {
            let before = window.before[k].saturating_sub((i * window.stride[k]) as i64).max(0);
            (before as u64).div_ceil(window.dilation[k] as u64) as i64
        };
        let mut dims = vec![1; which.rank()];
        dims[k + 2] = count;
        let _making = b.ledger.charge(8 * count as u64)?;
        let firsts = b.whole(dims, (0..count).map(first).collect())?;
        let inputs: Vec<&Value> = [which, &firsts].into_iter().chain(&made).collect();
        made = Some(b.map_in(Domain::I64, Element::I64, &inputs, |w| {
            let (which, first) = (w.input(0), w.input(1));
            let (stride, size) = (w.whole(strides[k] as i64), w.whole(window.size[k] as i64));
            let along = w.bin(Binary::Div, which, stride);
            let along = w.bin(Binary::Mod, along, size);
            let along = w.bin(Binary::Max, along, first);
            let place = w.mul(along, stride);
            if inputs.len() == 2 {
                return place;
            }
            let others = w.input(2);
            w.add(others, place)
        })?);
    }
    made.ok_or_else(|| "a window of no axes".into())
}

/// Place of each window's largest element in the input: the window's place, and that of the tap
/// within it.
fn places(
    b: &mut Builder<'_>,
    x: &Value,
    window: &Sliding,
    which: &Value,
    by_column: bool,
) -> Result<Value> {
    let mut strides = View::dense(x.dims()).strides;
    if by_column {
        let mut all = 1;
        for (stride, size) in strides.iter_mut().zip(x.dims()).skip(2) {
            *stride = all;
            all *= size;
        }
    }
    let rank = window.size.len();
    let tap = |tap: usize| -> i64 {
        let at = View { dims: window.size.clone(), strides: vec![1; rank] };
        let dense = View::dense(&at.dims).strides;
        (0..rank)
            .map(|k| (tap / dense[k] % window.size[k] * window.dilation[k] * strides[k + 2]) as i64)
            .sum()
    };
    let _making = b.ledger.charge(8 * elements(&window.size)? as u64)?;
    let taps: Vec<i64> = (0..window.size.iter().product()).map(tap).collect();
    let taps = b.whole(vec![taps.len()], taps)?;
    let target = Target::Tuples {
        batches: 1,
        shared: true,
        sizes: vec![taps.spec.elements()],
        inner: 1,
        tuples: which.spec.elements(),
    };
    let spec = Spec { element: Element::I64, dims: which.dims().to_vec() };
    let mut made = b.emit(Kind::Gather(Gather { target }), &[&taps, which], spec)?;
    for (k, &size) in which.dims().iter().enumerate() {
        let start = |i: usize| match k.checked_sub(2) {
            None => (i * strides[k]) as i64,
            Some(axis) => {
                ((i * window.stride[axis]) as i64 - window.before[axis]) * strides[k] as i64
            }
        };
        let mut dims = vec![1; which.rank()];
        dims[k] = size;
        let _making = b.ledger.charge(8 * size as u64)?;
        let starts = b.constant(dims, Array::I64((0..size).map(start).collect()))?;
        made = b.binary(Binary::Add, &made, &starts)?;
    }
    Ok(made)
}
