//! `reef model show` of a network of tensors: names, types and shapes of what goes in and out.

use crate::report::output::print;
use crate::report::table::table;
use anyhow::Result;
use reef::models::kinds::TensorModel;
use reef::models::{Extent, Port};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(crate) fn show(what: &str, model: &TensorModel, as_json: bool) -> Result<()> {
    if as_json {
        return print(serde_json::to_string_pretty(&facts(what, model))?);
    }
    describe(what, model)?;
    let mut ports = table(&["", "name", "type", "shape"]);
    for (what, all) in [("input", &model.inputs), ("output", &model.outputs)] {
        for port in all.iter().filter(|port| !port.extent.is_internal()) {
            let shape = format!("{:?}", sizes(port));
            ports.add_row([what, &port.name, kind(port), &shape]);
        }
    }
    print(ports)?;
    let mut kinds = table(&["operation", "times"]);
    for (kind, times) in kinds_of(model) {
        kinds.add_row([kind.to_owned(), times.to_string()]);
    }
    print(kinds)
}

/// Prints its figures in a line.
pub(crate) fn describe(what: &str, model: &TensorModel) -> Result<()> {
    print(format_args!(
        "{what}: {} operations, {:.2} M constants, activations take {:.1} MB",
        model.steps().len(),
        model.parameters() as f64 / 1e6,
        model.arena().bytes as f64 / 1e6,
    ))
}

/// Number of operations of each kind.
fn kinds_of(model: &TensorModel) -> BTreeMap<&'static str, usize> {
    let mut kinds = BTreeMap::new();
    model.steps().iter().for_each(|step| *kinds.entry(step.op.name()).or_default() += 1);
    kinds
}

/// Figures for `reef model list`.
pub(crate) fn listed(name: &str, model: &TensorModel) -> Value {
    json!({
        "name": name,
        "steps": model.steps().len(),
        "parameters": model.parameters(),
        "inputs": ports(&model.inputs),
        "outputs": ports(&model.outputs),
    })
}

fn ports(ports: &[Port]) -> Vec<Value> {
    ports.iter().filter(|port| !port.extent.is_internal()).map(port).collect()
}

fn port(port: &Port) -> Value {
    json!({ "name": port.name, "type": kind(port), "shape": sizes(port) })
}

/// Type of what a port takes or gives.
fn kind(port: &Port) -> &'static str {
    if port.texts.is_some() { "str" } else { port.spec.element.name() }
}

/// Sizes of a port; data decide about one of -1.
fn sizes(port: &Port) -> Vec<i64> {
    let mut sizes: Vec<i64> = port.spec.dims.iter().map(|&size| size as i64).collect();
    if let Extent::Bounded { axis, .. } = port.extent {
        sizes[axis] = -1;
    }
    sizes
}

pub(crate) fn facts(what: &str, model: &TensorModel) -> Value {
    json!({
        "network": what,
        "operations": kinds_of(model),
        "constants": model.parameters(),
        "arena_bytes": model.arena().bytes,
        "inputs": ports(&model.inputs),
        "outputs": ports(&model.outputs),
    })
}
