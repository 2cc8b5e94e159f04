//! Losses, as training reports them.

use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::onnx::general::operators::places::indexed::gather_elements;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Element, FoldKind, Gather, Kind, Spec, Target, Unary};

pub(in crate::onnx::general::operators) fn loss(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "NegativeLogLikelihoodLoss" => Ok(Some(vec![likelihood(b, call, call.get(0)?)?])),
        "SoftmaxCrossEntropyLoss" => {
            let scores = call.get(0)?;
            if scores.rank() < 2 {
                return Err(format!("scores must be of rows and classes, got {}", scores.spec));
            }
            let logarithms = b.softmax(scores, &[1], true)?;
            let logarithms = b.cast(&logarithms, scores.element())?;
            Ok(Some(vec![likelihood(b, call, &logarithms)?, logarithms]))
        }
        _ => Ok(None),
    }
}

/// `-weight[target] * x[target]`, summed, or divided by the sum of the weights as well.
fn likelihood(b: &mut Builder<'_>, call: &Call<'_>, x: &Value) -> Result<Value> {
    let target = call.get(1)?;
    let reduction = call.text("reduction", "mean")?;
    let ignored = call.maybe_int("ignore_index")?;
    let target = b.cast(target, Element::I64)?;
    if x.rank() < 2 || target.rank() + 1 != x.rank() {
        return Err(format!("targets {} of {}", target.spec, x.spec));
    }
    let one_channel = [&[target.dims()[0], 1], &target.dims()[1..]].concat();
    let column = b.reshape(&target, one_channel)?;
    let chosen = gather_elements(b, x, &column, 1)?;
    let mut chosen = b.reshape(&chosen, target.dims().to_vec())?;
    let mut weights = weights(b, call.maybe(2), &target, x)?;
    if let Some(ignored) = ignored {
        // Both, since 0 times an infinite element is NaN.
        chosen = without(b, &chosen, &target, ignored)?;
        weights = without(b, &weights, &target, ignored)?;
    }
    let products = b.binary(Binary::Mul, &weights, &chosen)?;
    let losses = b.unary(Unary::Neg, &products)?;
    let all: Vec<usize> = (0..losses.rank()).collect();
    let total = |b: &mut Builder<'_>, value: &Value| {
        let sum = b.fold_axes(value, &all, FoldKind::Sum)?;
        b.reshape(&sum, Vec::new())
    };
    match reduction {
        "none" => Ok(losses),
        "sum" => total(b, &losses),
        "mean" => {
            let (losses, weights) = (total(b, &losses)?, total(b, &weights)?);
            b.binary(Binary::Div, &losses, &weights)
        }
        other => Err(format!("attribute reduction = {other:?}")),
    }
}

/// The weight of each target.
fn weights(b: &mut Builder<'_>, given: Option<&Value>, target: &Value, x: &Value) -> Result<Value> {
    match given {
        None => {
            let one = b.scalar(x.element(), 1.0)?;
            b.expand(&one, target.dims())
        }
        Some(given) => {
            let sizes = vec![given.spec.elements()];
            let tuples = target.spec.elements();
            let points = Target::Tuples { batches: 1, shared: true, sizes, inner: 1, tuples };
            let spec = Spec { element: given.element(), dims: target.dims().to_vec() };
            b.emit(Kind::Gather(Gather { target: points }), &[given, target], spec)
        }
    }
}

/// 0 in the place of numbers of targets that are ignored.
fn without(b: &mut Builder<'_>, numbers: &Value, target: &Value, ignored: i64) -> Result<Value> {
    let ignored = b.whole(Vec::new(), vec![ignored])?;
    let is = b.binary(Binary::Equal, target, &ignored)?;
    b.map(numbers.element(), &[&is, numbers], |w| {
        let (is, number, zero) = (w.input(0), w.input(1), w.real(0.0));
        w.select(is, zero, number)
    })
}
