//! Elements that are infinite or NaN, where products with weights stand for reading some of them.
//!
//! An element that a bin doesn't have has a weight of 0, and 0 times infinity is NaN. So products
//! have 0 in the place of such elements ([`finite`]), and each bin gets afterwards what it has of
//! them ([`with_infinite`]). It has elements of adjoining rows and columns, and their number in
//! such a rectangle is a sum of four running sums over both axes.

use super::taps::{Space, Tap, with_channels_first};
use crate::onnx::fault::Result;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Element, FoldKind, Scalar, Unary};

/// Returns `x` with 0 in the place of what is infinite or NaN.
pub(super) fn finite(b: &mut Builder<'_>, x: &Value) -> Result<Value> {
    b.each(x, |w, x| {
        let (is_infinite, is_none) = (w.un(Unary::IsInf, x), w.un(Unary::IsNan, x));
        let (is_other, zero) = (w.bin(Binary::Max, is_infinite, is_none), w.real(0.0));
        w.select(is_other, zero, x)
    })
}

/// Returns bins `made` of the finite elements of `x` with the others that they have. Weights are
/// `[regions, bins, size]`, of rows and of columns.
pub(super) fn with_infinite(
    b: &mut Builder<'_>,
    made: &Value,
    x: &Value,
    weights: &[Value; 2],
    batches: &Value,
) -> Result<Value> {
    if made.spec.elements() == 0 || x.spec.elements() == 0 {
        return Ok(made.clone());
    }
    let of_batch = Tap::of_batches(b, batches)?;
    let axes = [vec![of_batch], ends(b, &weights[0], false)?, ends(b, &weights[1], true)?];
    let (above, below) = (count(b, x, 1.0, &axes)?, count(b, x, -1.0, &axes)?);
    b.map(made.element(), &[made, &above, &below], |w| {
        let (made, above, below, zero) = (w.input(0), w.input(1), w.input(2), w.real(0.0));
        let (most, none) = (w.real(f64::INFINITY), w.real(f64::NAN));
        let least = w.real(f64::NEG_INFINITY);
        let (is_above, is_below) =
            (w.bin(Binary::Less, zero, above), w.bin(Binary::Less, zero, below));
        let without = w.select(is_above, most, made);
        let with = w.select(is_above, none, least);
        w.select(is_below, with, without)
    })
}

/// The end of the elements that each bin has along an axis, and with a weight of -1 their begin.
fn ends(b: &mut Builder<'_>, weights: &Value, is_column: bool) -> Result<Vec<Tap>> {
    let has = b.map_in(weights.element().domain(), Element::I64, &[weights], |w| {
        let (weight, zero) = (w.input(0), w.real(0.0));
        w.bin(Binary::Less, zero, weight)
    })?;
    let begin = b.fold_axes(&has, &[2], FoldKind::ArgMax { last: false })?;
    let len = b.fold_axes(&has, &[2], FoldKind::Sum)?;
    let end = b.binary(Binary::Add, &begin, &len)?;
    let mut taps = Vec::new();
    for (at, sign) in [(end, 1.0), (begin, -1.0)] {
        let (regions, bins) = (at.dims()[0], at.dims()[1]);
        let dims = if is_column { vec![regions, 1, bins] } else { vec![regions, bins, 1] };
        let weight = b.scalar(weights.element(), sign)?;
        taps.push(Tap { at: b.reshape(&at, dims)?, weight: Some(weight), outside: None });
    }
    Ok(taps)
}

/// Number of infinite elements of this sign in each bin; NaN counts as one of either.
fn count(b: &mut Builder<'_>, x: &Value, sign: f64, axes: &[Vec<Tap>; 3]) -> Result<Value> {
    let is = b.each(x, |w, x| {
        let (is_infinite, is_none) = (w.un(Unary::IsInf, x), w.un(Unary::IsNan, x));
        let (sign, zero) = (w.real(sign), w.real(0.0));
        let turned = w.mul(x, sign);
        let is_above = w.bin(Binary::Less, zero, turned);
        let is_own = w.mul(is_infinite, is_above);
        w.bin(Binary::Max, is_own, is_none)
    })?;
    let sums = b.running(&is, 2, false, false)?;
    let sums = b.running(&sums, 3, false, false)?;
    let sums = b.pad(&sums, &[0, 0, 1, 1], &[0; 4], Scalar::Whole(0))?;
    let found = Space::of(b, &sums)?.with_batches().blend(b, axes, Binary::Add)?;
    with_channels_first(b, &found, 2, sums.element())
}
