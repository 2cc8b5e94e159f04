//! Losses, as training reports them.

use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::onnx::general::operators::places::indexed::gather_elements;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_core::tensor::{Binary, Element, FoldKind, Gather, Kind, Spec, Target, Unary};

pub(in crate::onnx::general::operators) fn loss(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "NegativeLogLikelihoodLoss" => Ok(Some(vec![likelihood(b, call, call.get(0)?)?])),
        "SoftmaxCrossEntropyLoss" => {
            let logarithms = b.softmax(call.get(0)?, &[1], true)?;
            let logarithms = b.cast(&logarithms, call.get(0)?.element())?;
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
    let chosen = b.reshape(&chosen, target.dims().to_vec())?;
    let weights = weights(b, call.maybe(2), &target, ignored, x)?;
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

/// The weight of each target, 0 for one that is ignored.
fn weights(
    b: &mut Builder<'_>,
    given: Option<&Value>,
    target: &Value,
    ignored: Option<i64>,
    x: &Value,
) -> Result<Value> {
    let weights = match given {
        None => {
            let one = b.scalar(x.element(), 1.0)?;
            b.expand(&one, target.dims())?
        }
        Some(given) => {
            let sizes = vec![given.spec.elements()];
            let tuples = target.spec.elements();
            let points = Target::Tuples { batches: 1, shared: true, sizes, inner: 1, tuples };
            let spec = Spec { element: given.element(), dims: target.dims().to_vec() };
            b.emit(Kind::Gather(Gather { target: points }), &[given, target], spec)?
        }
    };
    let Some(ignored) = ignored else { return Ok(weights) };
    let number = b.whole(Vec::new(), vec![ignored])?;
    let is = b.binary(Binary::Equal, target, &number)?;
    b.map(weights.element(), &[&is, &weights], |w| {
        let (is, weight, zero) = (w.input(0), w.input(1), w.real(0.0));
        w.select(is, zero, weight)
    })
}
