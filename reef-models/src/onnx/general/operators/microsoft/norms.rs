//! Normalisations of sums.

use crate::onnx::fault::{Result, beyond};
use crate::onnx::general::call::Call;
use crate::onnx::general::operators::places::indexed::rows_at;
use crate::onnx::general::operators::quantized::linear::{Factor, dequantized};
use crate::tensors::axes::size;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Element, FoldKind};

/// Operands: input, skip, scale, shift (of one that is centred), bias. Results: the normalised sum,
/// its means and inverse deviations, and the sum.
pub(super) fn skip(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    is_centred: bool,
) -> Result<Option<Vec<Value>>> {
    let (x, skip, scale) = (call.get(0)?, call.get(1)?, call.get(2)?);
    let (shift, bias) =
        if is_centred { (call.maybe(3), call.maybe(4)) } else { (None, call.maybe(3)) };
    let mut sum = b.binary(Binary::Add, x, skip)?;
    if let Some(bias) = bias {
        sum = b.binary(Binary::Add, &sum, bias)?;
    }
    let last = last_axis(&sum)?;
    let epsilon = call.float("epsilon", 1e-12)?;
    let [made, mean, inverse] = if is_centred {
        b.standardise(&sum, &[last], epsilon)?
    } else {
        let [made, inverse] = b.by_root_mean_square(&sum, &[last], epsilon)?;
        [made, inverse.clone(), inverse]
    };
    let made = b.scaled(&made, Some(scale), shift)?;
    let made = b.cast(&made, x.element())?;
    if !is_centred && call.wants(1) {
        return Err("output 1 is not supported".into());
    }
    Ok(Some(vec![made, mean, inverse, sum]))
}

/// `softmax(x + bias)` along all axes from one on.
pub(super) fn softmax_of_sum(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let sum = b.binary(Binary::Add, x, call.get(1)?)?;
    if sum.dims() != x.dims() {
        return Err(format!("a bias of {} for {}", call.get(1)?.spec, x.spec));
    }
    call.int("is_inner_broadcast", 0)?; // sizes say the same
    let axes: Vec<usize> = (call.axis(1, x.rank())?..x.rank()).collect();
    let made = b.softmax(&sum, &axes, false)?;
    b.cast(&made, x.element())
}

/// Images whose channels come last, normalised by groups of channels. Operands: images, scale,
/// shift, and with a `skip` a summand and a bias. Results: the normalised sum, and the sum.
pub(super) fn group(b: &mut Builder<'_>, call: &Call<'_>, has_skip: bool) -> Result<Vec<Value>> {
    let (x, groups) = (call.get(0)?, size(call.int("groups", 0)?)?);
    let &[batch, rows, columns, channels] = x.dims() else {
        return Err(format!("images of {}", x.spec));
    };
    if !call.flag("channels_last", true)? {
        return Err(beyond("attribute channels_last must be 1, got 0"));
    }
    if groups == 0 || !channels.is_multiple_of(groups) {
        return Err(format!("{} in {groups} groups", x.spec));
    }
    let mut sum = x.clone();
    if has_skip {
        let skip = match *call.get(3)?.dims() {
            [own, each] => b.reshape(call.get(3)?, vec![own, 1, 1, each])?,
            _ => call.get(3)?.clone(),
        };
        for summand in [Some(&skip), call.maybe(4)].into_iter().flatten() {
            sum = b.binary(Binary::Add, &sum, summand)?;
        }
    }
    let split = vec![batch, rows * columns, groups, channels / groups];
    let split = b.reshape(&sum, split)?;
    let [made, ..] = b.standardise(&split, &[1, 3], call.float("epsilon", 1e-5)?)?;
    let made = b.reshape(&made, sum.dims().to_vec())?;
    let made = b.scaled(&made, Some(call.get(1)?), Some(call.get(2)?))?;
    let made = match call.int("activation", 0)? {
        0 => made,
        1 => b.each(&made, |w, x| {
            let gate = w.sigmoid(x);
            w.mul(x, gate)
        })?,
        other => return Err(format!("attribute activation = {other}")),
    };
    let made = b.cast(&made, x.element())?;
    Ok(if has_skip { vec![made, sum] } else { vec![made] })
}

fn last_axis(x: &Value) -> Result<usize> {
    x.rank().checked_sub(1).ok_or_else(|| format!("a normalisation of {}", x.spec))
}

/// Operands: numbers of words and of segments, the three tables, scale, shift, mask, and places. In
/// place of these a network of 8 bits has scales and zero points of the tables, scale and shift.
/// Results: the normalised sum of what the tables have, the sums of the mask, and the sum.
pub(super) fn embed(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    let (words, segments) = (call.get(0)?, call.maybe(1));
    let &[batch, tokens] = words.dims() else {
        return Err(format!("numbers of words must be a matrix, got {}", words.spec));
    };
    if call.int("mask_index_type", 1)? > 1 {
        return Err("attribute mask_index_type must be 0 or 1".into());
    }
    let is_narrow = call.op() == "QEmbedLayerNormalization";
    let places = match call.maybe(8).filter(|_| !is_narrow) {
        Some(places) => places.clone(),
        None => b.count(vec![1, tokens])?,
    };
    let floats = |b: &mut Builder<'_>, value: &Value, index: usize| {
        if !is_narrow {
            return Ok(value.clone());
        }
        let [scale, zero] = [call.get(index + 6)?, call.get(index + 11)?];
        let [scale, zero] = [Factor::of(b, scale)?, Factor::of(b, zero)?];
        dequantized(b, value, &scale, &zero, Element::F32)
    };
    let rows = |b: &mut Builder<'_>, index: usize, numbers: &Value| {
        let found = rows_at(b, call.get(index)?, numbers)?;
        floats(b, &found, index)
    };
    let mut sum = rows(b, 2, words)?;
    let place = rows(b, 3, &places)?;
    sum = b.binary(Binary::Add, &sum, &place)?;
    match (segments, call.maybe(4)) {
        (None, None) => {}
        (Some(_), None) => {
            return Err("segment_ids are given, and segment_embedding is missing".into());
        }
        (given, Some(_)) => {
            // All are the first one if they are left out, as in ONNX Runtime.
            let segments = match given {
                Some(segments) => segments.clone(),
                None => b.zeros(vec![1, tokens])?,
            };
            let segment = rows(b, 4, &segments)?;
            sum = b.binary(Binary::Add, &sum, &segment)?;
        }
    }
    let last = last_axis(&sum)?;
    let [made, ..] = b.standardise(&sum, &[last], call.float("epsilon", 1e-12)?)?;
    let (scale, shift) = (floats(b, call.get(5)?, 5)?, floats(b, call.get(6)?, 6)?);
    let made = b.scaled(&made, Some(&scale), Some(&shift))?;
    let made = b.cast(&made, sum.element())?;
    let index = match call.maybe(7) {
        Some(mask) if mask.dims() != [batch, tokens] => {
            return Err(format!("a mask {} of {batch} rows of {tokens} words", mask.spec));
        }
        Some(mask) => {
            let sums = b.fold_axes(mask, &[1], FoldKind::Sum)?;
            let sums = b.reshape(&sums, vec![batch])?;
            b.cast(&sums, Element::I32)?
        }
        None => {
            let zero = b.scalar(Element::I32, 0.0)?;
            b.expand(&zero, &[batch])?
        }
    };
    Ok(Some(vec![made, index, sum]))
}
