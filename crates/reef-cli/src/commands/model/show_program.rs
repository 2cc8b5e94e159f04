//! `reef model show` of a network that brings its kernels: what goes in and out, and what REEF's
//! own restart would break.

use crate::report::output::{count, print};
use crate::report::table::table;
use anyhow::Result;
use reef::models::kinds::{ProgramInput, ProgramModel};
use reef::models::{arena, hazards};
use serde_json::{Value, json};

/// Numbers of launches that REEF may run again before the last one known to have finished.
const DEPTHS: [usize; 3] = [0, 1, 2];

pub(crate) fn show(folder: &str, model: &ProgramModel, as_json: bool) -> Result<()> {
    if as_json {
        return print(serde_json::to_string_pretty(&facts(folder, model))?);
    }
    let graph = model.graph();
    let (launches, kernels) = (graph.steps.len(), graph.kernels().len());
    let (launches, kernels) = (count(launches, "launch"), count(kernels, "kernel"));
    print(format_args!("{folder}: {launches} of {kernels} of its own"))?;
    let megabytes = |bytes: usize| bytes as f64 / 1e6;
    let (all, shared) = (megabytes(graph.bytes()), megabytes(arena::plan(graph).bytes));
    print(format_args!("storages {all:.1} MB, activations take {shared:.1} MB"))?;
    let mut ports = table(&["", "name", "type", "elements"]);
    for input in model.inputs() {
        ports.add_row(["input", &input.name, input.element.name(), &input.elements.to_string()]);
    }
    let outputs = graph.storages.iter().filter(|storage| storage.name == "output");
    for output in outputs {
        ports.add_row([
            "output",
            &output.name,
            output.element.name(),
            &output.elements.to_string(),
        ]);
    }
    print(ports)?;
    found(model).iter().try_for_each(print)
}

/// Hazards under REEF's own restart and on devices other than an MI50, and their treatment here.
fn found(model: &ProgramModel) -> Vec<String> {
    let launches = model.graph().steps.len();
    let mut found = Vec::new();
    for d in DEPTHS {
        let at = hazards(model.graph(), d).len();
        if at > 0 {
            found.push(format!(
                "REEF's restart {d} launches back reads overwritten inputs at {at} of {launches} launches; no launch runs \
                 again here"
            ));
        }
    }
    let exchanging = model.exchanging().collect::<Vec<_>>().join(", ");
    if !exchanging.is_empty() {
        found.push(format!("exchanges in a wave of 64 lanes, by barriers on NVIDIA: {exchanging}"));
    }
    for (file, why) in model.unguarded() {
        found.push(format!("{file} can't be stopped midway, so not at level All: {why}"));
    }
    if !model.has_weights() {
        found.push("no weights (.param): they are made up".into());
    }
    found
}

fn facts(folder: &str, model: &ProgramModel) -> Value {
    let input = |input: &ProgramInput| {
        let kind = input.element.name();
        json!({ "name": input.name, "type": kind, "elements": input.elements })
    };
    let graph = model.graph();
    json!({
        "network": folder,
        "launches": graph.steps.len(),
        "kernels": graph.kernels().len(),
        "bytes": graph.bytes(),
        "arena_bytes": arena::plan(graph).bytes,
        "inputs": model.inputs().iter().map(input).collect::<Vec<_>>(),
        "hazards": DEPTHS.map(|d| hazards(graph, d)),
        "exchanges": model.exchanging().collect::<Vec<_>>(),
        "unguarded": model.unguarded().map(|(file, why)| json!({ "file": file, "why": why })).collect::<Vec<_>>(),
        "weights": model.has_weights(),
    })
}
