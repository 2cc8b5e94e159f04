//! Softmax and normalisations.

use crate::model::check::is_epsilon;
use crate::onnx::fault::{Result, beyond};
use crate::onnx::general::call::{Call, one};
use crate::tensors::axes::{axis, size};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, FoldKind, Scalar, Unary, View};

pub(in crate::onnx::general::operators) fn normalisation(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "Softmax" | "LogSoftmax" | "Hardmax" => one(softmax(b, call)?),
        "LayerNormalization" => Ok(Some(layer(b, call)?)),
        "RMSNormalization" | "SimplifiedLayerNormalization" => Ok(Some(root_mean_square(b, call)?)),
        "InstanceNormalization" => one(instance(b, call)?),
        "GroupNormalization" => one(group(b, call)?),
        "BatchNormalization" => Ok(Some(batch(b, call)?)),
        "MeanVarianceNormalization" => one(standardised(b, call)?),
        "LpNormalization" => one(by_norm(b, call)?),
        "LRN" => one(local_response(b, call)?),
        _ => Ok(None),
    }
}

/// By means and deviations over some axes. Before operator set 9 attributes say if channels are
/// among these, and if deviations count.
fn standardised(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let of_channel = [0, 2, 3].into_iter().filter(|&k| k < x.rank() as i64);
    let (usual, of_all): (Vec<i64>, Vec<i64>) =
        (of_channel.collect(), (0..x.rank() as i64).collect());
    let is_old = call.opset < 9;
    let usual = if is_old && call.flag("across_channels", false)? { of_all } else { usual };
    let axes = crate::tensors::axes::axes(call.ints("axes")?.unwrap_or(&usual), x.rank())?;
    let made = if is_old && !call.flag("normalize_variance", true)? {
        let wide = b.widened(x)?;
        let mean = b.mean(&wide, &axes)?;
        b.binary(Binary::Sub, &wide, &mean)?
    } else {
        // The standard adds 1e-9 to the root, and not to what it is the root of.
        let [made, ..] = b.standardise(x, &axes, 1e-18)?;
        made
    };
    b.cast(&made, x.element())
}

/// Along one axis; in older operator sets along all from it on.
fn softmax(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let at = call.axis(if call.opset < 13 { 1 } else { -1 }, x.rank())?;
    let axes: Vec<usize> = if call.opset < 13 { (at..x.rank()).collect() } else { vec![at] };
    if call.op() != "Hardmax" {
        let made = b.softmax(x, &axes, call.op() == "LogSoftmax")?;
        return b.cast(&made, x.element());
    }
    let best = b.fold_axes(x, &axes, FoldKind::ArgMax { last: false })?;
    let dims = (0..x.rank()).map(|k| if axes.contains(&k) { x.dims()[k] } else { 1 }).collect();
    let places = b.count(dims)?;
    let is = b.binary(Binary::Equal, &places, &best)?;
    b.cast(&is, x.element())
}

/// Results: the normalised input, the means and the inverse deviations.
fn layer(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.get(0)?;
    let axes: Vec<usize> = (call.axis(-1, x.rank())?..x.rank()).collect();
    call.int("stash_type", 1)?;
    let [made, mean, inverse] = b.standardise(x, &axes, call.float("epsilon", 1e-5)?)?;
    let made = b.scaled(&made, call.maybe(1), call.maybe(2))?;
    Ok(vec![b.cast(&made, x.element())?, mean, inverse])
}

/// Results: the input by its root mean square, and the inverse of that. The first one has the type
/// of the scale, which may be another than the input's.
fn root_mean_square(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.get(0)?;
    let axes: Vec<usize> = (call.axis(-1, x.rank())?..x.rank()).collect();
    call.int("stash_type", 1)?;
    let [made, inverse] = b.by_root_mean_square(x, &axes, call.float("epsilon", 1e-5)?)?;
    let scale = call.get(1)?;
    let made = b.scaled(&made, Some(scale), None)?;
    Ok(vec![b.cast(&made, scale.element())?, inverse])
}

/// One number for each channel, to be broadcast over batch and space.
fn by_channel(b: &Builder<'_>, value: &Value, rank: usize) -> Result<Value> {
    let mut dims = vec![1; rank.saturating_sub(1).max(1)];
    dims[0] = value.spec.elements();
    b.reshape(value, dims)
}

fn instance(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let axes: Vec<usize> = (2..x.rank()).collect();
    let [made, ..] = b.standardise(x, &axes, call.float("epsilon", 1e-5)?)?;
    let (scale, shift) =
        (by_channel(b, call.get(1)?, x.rank())?, by_channel(b, call.get(2)?, x.rank())?);
    let made = b.scaled(&made, Some(&scale), Some(&shift))?;
    b.cast(&made, x.element())
}

/// Scale and shift are for each group in operator sets before 21, for each channel since.
fn group(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let groups = size(call.int("num_groups", 0)?)?;
    call.int("stash_type", 1)?;
    if x.rank() < 2 || groups == 0 || !x.dims()[1].is_multiple_of(groups) {
        return Err(format!("{} in {groups} groups", x.spec));
    }
    let grouped = [&[x.dims()[0], groups, x.dims()[1] / groups], &x.dims()[2..]].concat();
    let split = b.reshape(x, grouped)?;
    let axes: Vec<usize> = (2..split.rank()).collect();
    let [made, ..] = b.standardise(&split, &axes, call.float("epsilon", 1e-5)?)?;
    let by_group = call.get(1)?.spec.elements() == groups && call.opset < 21;
    let made = if by_group { made } else { b.reshape(&made, x.dims().to_vec())? };
    let rank = made.rank();
    let (scale, shift) = (by_channel(b, call.get(1)?, rank)?, by_channel(b, call.get(2)?, rank)?);
    let made = b.scaled(&made, Some(&scale), Some(&shift))?;
    let made = b.reshape(&made, x.dims().to_vec())?;
    b.cast(&made, x.element())
}

/// By means and variances that training has left. In training mode by those of the batch: then
/// there are four more results, the running ones with the batch's part in them, and the batch's.
fn batch(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.get(0)?;
    let epsilon = call.float("epsilon", 1e-5)?;
    if !is_epsilon(epsilon) {
        return Err(format!("attribute epsilon must be at least 0, got {epsilon}"));
    }
    let momentum = call.float("momentum", 0.9)?;
    let is_by_channel = call.flag("spatial", true)?;
    if !is_by_channel && is_training(call)? {
        return Err(beyond("attribute spatial must be 1 in training mode, got 0"));
    }
    let channel = |index| {
        let value = call.get(index)?;
        if is_by_channel || x.dims().get(1..) != Some(value.dims()) {
            return by_channel(b, value, x.rank());
        }
        Ok(value.clone()) // a number for each element of an example
    };
    let [scale, shift, mean, variance] = [channel(1)?, channel(2)?, channel(3)?, channel(4)?];
    let all = [&scale, &shift, &mean, &variance];
    let mut wide = all.iter().map(|value| b.widened(value)).collect::<Result<Vec<_>>>()?;
    let mut more = Vec::new();
    if is_training(call)? {
        let own = statistics(b, x)?;
        for (old, new) in wide[2..].iter().zip(&own) {
            more.push(b.map(old.element(), &[old, new], |w| {
                let (old, new) = (w.input(0), w.input(1));
                let (kept, taken) = (w.real(momentum), w.real(1.0 - momentum));
                let (old, new) = (w.mul(old, kept), w.mul(new, taken));
                w.add(old, new)
            })?);
        }
        more.extend(own.clone());
        let [mean, variance] = own;
        (wide[2], wide[3]) = (mean, variance);
    }
    let inverse = b.map(wide[0].element(), &[&wide[0], &wide[3]], |w| {
        let (scale, variance, epsilon) = (w.input(0), w.input(1), w.real(epsilon));
        let sum = w.add(variance, epsilon);
        let root = w.un(Unary::Sqrt, sum);
        w.div(scale, root)
    })?;
    let mut results = vec![b.map(x.element(), &[x, &inverse, &wide[2], &wide[1]], |w| {
        let (x, factor, mean, shift) = (w.input(0), w.input(1), w.input(2), w.input(3));
        let centred = w.sub(x, mean);
        let scaled = w.mul(centred, factor);
        w.add(scaled, shift)
    })?];
    let like = call.get(3)?;
    for value in &more {
        let value = b.reshape(value, like.dims().to_vec())?;
        results.push(b.cast(&value, like.element())?);
    }
    Ok(results)
}

/// Returns whether a `BatchNormalization` is in training mode. In operator sets before 14 its
/// further results say so.
fn is_training(call: &Call<'_>) -> Result<bool> {
    Ok(call.flag("training_mode", false)? || call.wants(1))
}

/// Mean and variance of each channel, to be broadcast over batch and space.
fn statistics(b: &mut Builder<'_>, x: &Value) -> Result<[Value; 2]> {
    if x.rank() < 2 {
        return Err(format!("a batch of {}", x.spec));
    }
    let axes: Vec<usize> = (0..x.rank()).filter(|&axis| axis != 1).collect();
    let wide = b.widened(x)?;
    let mean = b.mean(&wide, &axes)?;
    let centred = b.binary(Binary::Sub, &wide, &mean)?;
    let squares = b.binary(Binary::Mul, &centred, &centred)?;
    let variance = b.mean(&squares, &axes)?;
    Ok([by_channel(b, &mean, x.rank())?, by_channel(b, &variance, x.rank())?])
}

fn by_norm(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let at = axis(call.int("axis", -1)?, x.rank())?;
    let wide = b.widened(x)?;
    let norm = match call.int("p", 2)? {
        1 => b.fold_axes(&wide, &[at], FoldKind::SumAbs)?,
        2 => {
            let squares = b.fold_axes(&wide, &[at], FoldKind::SumSquares)?;
            b.unary(Unary::Sqrt, &squares)?
        }
        other => return Err(format!("attribute p = {other}")),
    };
    b.map(x.element(), &[x, &norm], |w| {
        let (x, norm, zero) = (w.input(0), w.input(1), w.real(0.0));
        let (is_zero, quotient) = (w.bin(Binary::Equal, norm, zero), w.bin(Binary::Div, x, norm));
        w.select(is_zero, zero, quotient)
    })
}

/// `x / (bias + alpha / size * sum of squares of adjoining channels) ^ beta`.
fn local_response(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let near = size(call.int("size", 0)?)?;
    let (alpha, beta, bias) =
        (call.float("alpha", 1e-4)?, call.float("beta", 0.75)?, call.float("bias", 1.0)?);
    if near == 0 || near > 1 << 20 || x.rank() < 2 {
        return Err(format!("a window of {near} channels of {}", x.spec));
    }
    let (mut before, mut after) = (vec![0; x.rank()], vec![0; x.rank()]);
    (before[1], after[1]) = (((near - 1) / 2) as i64, (near / 2) as i64);
    let wide = b.widened(x)?;
    let padded = b.pad(&wide, &before, &after, Scalar::Whole(0))?;
    let dense = View::dense(padded.dims());
    let kept = View { dims: x.dims().to_vec(), strides: dense.strides.clone() };
    let folded = View { dims: vec![near], strides: vec![dense.strides[1]] };
    let squares = b.fold_view(&padded, kept, folded, x.dims().to_vec(), FoldKind::SumSquares)?;
    b.map(x.element(), &[x, &squares], |w| {
        let (x, squares) = (w.input(0), w.input(1));
        let (factor, bias, beta) = (w.real(alpha / near as f64), w.real(bias), w.real(beta));
        let scaled = w.mul(factor, squares);
        let sum = w.add(bias, scaled);
        let power = w.bin(Binary::Pow, sum, beta);
        w.div(x, power)
    })
}
