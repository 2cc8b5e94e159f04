//! Linear models.

use super::ensemble::rows;
use super::forest::numbers_of;
use super::scores::{Labels, Transform, based, pair};
use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::tensors::axes::size;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::Element;

/// `x · coefficientsᵀ + intercepts`, of which there are `targets` rows; as many as there are
/// coefficients for if `targets` is not given.
fn scores(b: &mut Builder<'_>, call: &Call<'_>, targets: Option<usize>) -> Result<Value> {
    let x = rows(b, call)?;
    let x = b.cast(&x, Element::F32)?;
    let list = |name| {
        let given = call.floats(name)?.unwrap_or_default();
        Ok::<Vec<f64>, String>(given.iter().map(|&x| x.into()).collect())
    };
    let (coefficients, intercepts) = (list("coefficients")?, list("intercepts")?);
    let columns = x.dims()[1];
    let targets = targets.unwrap_or(coefficients.len().checked_div(columns).unwrap_or_default());
    if targets == 0 || coefficients.len() != targets.saturating_mul(columns) {
        let len = coefficients.len();
        return Err(format!("{len} coefficients for {targets} targets of {columns} columns"));
    }
    let factors = numbers_of(b, vec![targets, columns], coefficients, Element::F32)?;
    let made = b.gemm(&x, &factors, [false, true])?;
    based(b, &made, &intercepts)
}

pub(super) fn regressor(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let transform = Transform::of(call)?;
    let scores = scores(b, call, Some(size(call.int("targets", 1)?)?))?;
    transform.applied(b, &scores)
}

/// Label and scores of each row.
pub(super) fn classifier(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Vec<Value>> {
    call.int("multi_class", 0)?; // how it was trained
    let (transform, labels) = (Transform::of(call)?, Labels::of(call, "classlabels_ints")?);
    let scores = scores(b, call, None)?;
    match (scores.dims()[1], labels.count) {
        (1, 2) => {
            let label = labels.above(b, &scores, 0.0)?;
            Ok(vec![label, pair(b, &scores, transform, true)?])
        }
        (have, want) if have == want && have > 0 => {
            Ok(vec![labels.best(b, &scores)?, transform.applied(b, &scores)?])
        }
        (have, want) => Err(format!("coefficients of {have} classes for {want} labels")),
    }
}
