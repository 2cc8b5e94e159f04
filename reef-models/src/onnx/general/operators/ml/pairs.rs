//! Probabilities of classes of those of pairs of them (Wu, Lin and Weng, 2004), as ONNX Runtime
//! iterates.

use super::forest::numbers_of;
use crate::onnx::fault::{Result, unsupported};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Element, FoldKind, Unary};

/// Rounds of the iteration. It converged in 4 at most for thousands of random probabilities of 2 to
/// 10 classes; a row that has converged is left as it is.
const ROUNDS: usize = 8;
/// Most classes: a round has an operation or two for each.
const MAX_CLASSES: usize = 64;
/// Least probability of a pair.
const MIN_PROBABILITY: f64 = 1e-7;

/// Of scores `[rows, pairs]`, by factors and shifts of the logistic function of each pair.
pub(super) fn probabilities(
    b: &mut Builder<'_>,
    scores: &Value,
    [factors, shifts]: &[Vec<f64>; 2],
    pairs: &[[usize; 2]],
    classes: usize,
) -> Result<Value> {
    if classes > MAX_CLASSES {
        return Err(unsupported(&format!(
            "probabilities of {classes} classes, at most {MAX_CLASSES} possible, are"
        )));
    }
    let of_pairs = |list: &[f64]| numbers_of(b, vec![pairs.len()], list.to_vec(), Element::F32);
    let (factors, shifts) = (of_pairs(factors)?, of_pairs(shifts)?);
    let first = b.map(Element::F32, &[scores, &factors, &shifts], |w| {
        let (score, factor, shift) = (w.input(0), w.input(1), w.input(2));
        let (least, most) = (w.real(MIN_PROBABILITY), w.real(1.0 - MIN_PROBABILITY));
        let scaled = w.mul(score, factor);
        let moved = w.add(scaled, shift);
        let minus = w.un(Unary::Neg, moved);
        let share = w.sigmoid(minus);
        let share = w.bin(Binary::Max, share, least);
        w.bin(Binary::Min, share, most)
    })?;
    let forms = forms(b, &first, pairs, classes)?;
    let rows = scores.dims()[0];
    let even = b.scalar(Element::F32, 1.0 / classes as f64)?;
    let mut made = b.expand(&even, &[rows, classes])?;
    for _ in 0..ROUNDS {
        made = round(b, &forms, &made)?;
    }
    Ok(made)
}

/// The quadratic form `[rows, classes, classes]` that is least at the probabilities.
fn forms(
    b: &mut Builder<'_>,
    first: &Value,
    pairs: &[[usize; 2]],
    classes: usize,
) -> Result<Value> {
    let rows = first.dims()[0];
    let mut of_pair = vec![0; classes * classes];
    let mut is_second = vec![0.0; classes * classes];
    for (number, &[i, j]) in pairs.iter().enumerate() {
        (of_pair[i * classes + j], of_pair[j * classes + i]) = (number, number);
        is_second[j * classes + i] = 1.0;
    }
    let all = b.pick_axis(first, 1, of_pair)?;
    let all = b.reshape(&all, vec![rows, classes, classes])?;
    let is_second = numbers_of(b, vec![classes, classes], is_second, Element::F32)?;
    let alone = (0..classes * classes).map(|k| f64::from(u8::from(k / classes == k % classes)));
    let alone = numbers_of(b, vec![classes, classes], alone.collect(), Element::F32)?;
    // Probability of the row's class against the column's; nothing against itself.
    let against = b.map(Element::F32, &[&all, &is_second, &alone], |w| {
        let (share, is_second, alone) = (w.input(0), w.input(1), w.input(2));
        let (one, zero) = (w.real(1.0), w.real(0.0));
        let other = w.sub(one, share);
        let share = w.select(is_second, other, share);
        w.select(alone, zero, share)
    })?;
    let turned = b.transpose(&against, &[0, 2, 1])?;
    let squares = b.fold_axes(&turned, &[2], FoldKind::SumSquares)?;
    b.map(Element::F32, &[&against, &turned, &squares, &alone], |w| {
        let (share, other) = (w.input(0), w.input(1));
        let (squares, alone) = (w.input(2), w.input(3));
        let product = w.mul(share, other);
        let minus = w.un(Unary::Neg, product);
        w.select(alone, squares, minus)
    })
}

/// One round; rows whose error is small stay as they are.
fn round(b: &mut Builder<'_>, forms: &Value, before: &Value) -> Result<Value> {
    let (rows, classes) = (before.dims()[0], before.dims()[1]);
    let shares = b.reshape(before, vec![rows, 1, classes])?;
    let products = b.binary(Binary::Mul, forms, &shares)?;
    let slopes = b.fold_axes(&products, &[2], FoldKind::Sum)?;
    let mut slopes = b.reshape(&slopes, vec![rows, classes])?;
    let products = b.binary(Binary::Mul, &slopes, before)?;
    let mut value = b.fold_axes(&products, &[1], FoldKind::Sum)?;
    let apart = b.binary(Binary::Sub, &slopes, &value)?;
    let apart = b.unary(Unary::Abs, &apart)?;
    let error = b.fold_axes(&apart, &[1], FoldKind::Max)?;
    let mut shares = before.clone();
    for class in 0..classes {
        let row = b.cut(forms, 1, class, class + 1)?;
        let row = b.reshape(&row, vec![rows, classes])?;
        let own = b.cut(&row, 1, class, class + 1)?;
        let slope = b.cut(&slopes, 1, class, class + 1)?;
        let change = b.map(Element::F32, &[&value, &slope, &own], |w| {
            let (value, slope, own) = (w.input(0), w.input(1), w.input(2));
            let apart = w.sub(value, slope);
            w.div(apart, own)
        })?;
        value = b.map(Element::F32, &[&value, &slope, &own, &change], |w| {
            let (value, slope) = (w.input(0), w.input(1));
            let (own, change) = (w.input(2), w.input(3));
            let (one, two) = (w.real(1.0), w.real(2.0));
            let (first, second) = (w.mul(change, own), w.mul(two, slope));
            let sum = w.add(first, second);
            let product = w.mul(change, sum);
            let moved = w.add(value, product);
            let all = w.add(one, change);
            let moved = w.div(moved, all);
            w.div(moved, all)
        })?;
        slopes = b.map(Element::F32, &[&slopes, &row, &change], |w| {
            let (slope, row, change, one) = (w.input(0), w.input(1), w.input(2), w.real(1.0));
            let product = w.mul(change, row);
            let moved = w.add(slope, product);
            let all = w.add(one, change);
            w.div(moved, all)
        })?;
        let only = (0..classes).map(|k| f64::from(u8::from(k == class))).collect();
        let only = numbers_of(b, vec![classes], only, Element::F32)?;
        shares = b.map(Element::F32, &[&shares, &change, &only], |w| {
            let (share, change, only) = (w.input(0), w.input(1), w.input(2));
            let one = w.real(1.0);
            let product = w.mul(change, only);
            let moved = w.add(share, product);
            let all = w.add(one, change);
            w.div(moved, all)
        })?;
    }
    let bound = 0.005 / classes as f64;
    b.map(Element::F32, &[&error, before, &shares], |w| {
        let (error, before, after) = (w.input(0), w.input(1), w.input(2));
        let bound = w.real(bound);
        let is_small = w.bin(Binary::Less, error, bound);
        w.select(is_small, before, after)
    })
}
