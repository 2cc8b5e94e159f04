//! Operators of the domain `ai.onnx.ml`: ensembles of trees, linear models, support vector
//! machines, and what prepares columns for them.
//!
//! A forest is tables of its nodes. All trees of all rows go down one level at a time by lookups,
//! so that a forest is as many operations as its deepest tree has levels, whatever their number.
//! Scores of classes and their labels follow ONNX Runtime. Texts are their places in a list.

mod columns;
mod ensemble;
mod forest;
mod linear;
mod nodes;
mod pairs;
mod scores;
mod vectors;

use crate::onnx::fault::Result;
use crate::onnx::general::call::{Call, one};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;

pub(super) fn learned(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "TreeEnsembleClassifier" => Ok(Some(ensemble::classifier(b, call)?)),
        "TreeEnsembleRegressor" => one(ensemble::regressor(b, call)?),
        "TreeEnsemble" => one(ensemble::ensemble(b, call)?),
        "LinearClassifier" => Ok(Some(linear::classifier(b, call)?)),
        "LinearRegressor" => one(linear::regressor(b, call)?),
        "SVMClassifier" => Ok(Some(vectors::classifier(b, call)?)),
        "SVMRegressor" => one(vectors::regressor(b, call)?),
        _ => columns::column(b, call),
    }
}
