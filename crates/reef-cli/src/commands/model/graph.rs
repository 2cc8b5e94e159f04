//! `reef model show` of a schedule graph: contents of its files, or the fault in them.

use crate::report::output::{count, print};
use anyhow::Result;
use reef::models::kinds::ImageModel;
use reef::models::{self, Budget, ScheduleGraph, Work, param::Params, profile::Latencies};
use serde_json::{Value, json};
use std::path::Path;

/// Files of a network that REEF compiled.
pub(super) struct Files<'a> {
    /// Schedule graph: REEF's MODEL.json, or the model.json of a folder.
    pub(super) graph: &'a Path,
    pub(super) weights: Option<&'a Path>,
    pub(super) latencies: Option<&'a Path>,
}

/// Prints what is in the files, once they are known to fit.
pub(super) fn show(files: &Files<'_>, as_json: bool) -> Result<()> {
    let graph = ScheduleGraph::load(files.graph)?;
    let model = network(files.graph, &graph)?;
    if let Some(path) = files.weights {
        let params = Params::load(path, &Budget::default())?;
        match &model {
            Some(model) => drop(model.params(&params)?),
            None => fits(path, &params, &graph)?,
        }
    }
    let profiled =
        files.latencies.map(|path| profiled(path, &graph, model.as_ref())).transpose()?;
    if as_json {
        return print(serde_json::to_string_pretty(&json(files, &graph, profiled))?);
    }
    describe(files.graph, &graph)?;
    if let Some(path) = files.weights {
        print(format_args!("{}: fits", path.display()))?;
    }
    match (files.latencies, profiled) {
        (Some(path), Some(kernels)) => {
            print(format_args!("{}: latencies of {}", path.display(), count(kernels, "kernel")))
        }
        _ => Ok(()),
    }
}

/// Number of kernels whose latencies a file has.
fn profiled(
    path: &Path,
    graph: &ScheduleGraph,
    model: Option<&ImageModel>,
) -> models::Result<usize> {
    let latencies = Latencies::load(path)?;
    Ok(match model {
        Some(_) => latencies.kernels.len(),
        None => latencies.profiles_of(graph).len(),
    })
}

fn json(files: &Files<'_>, graph: &ScheduleGraph, profiled: Option<usize>) -> Value {
    json!({
        "graph": files.graph.display().to_string(),
        "launches": graph.steps.len(),
        "kernels": graph.kernels().len(),
        "storages": graph.storages.len(),
        "bytes": graph.bytes(),
        "param_fits": files.weights.map(|_| true), // or it would have been an error
        "profiled_kernels": profiled,
    })
}

fn describe(path: &Path, graph: &ScheduleGraph) -> Result<()> {
    print(format_args!(
        "{}: {} of {}, {}, {}",
        path.display(),
        count(graph.steps.len(), "launch"),
        count(graph.kernels().len(), "kernel"),
        count(graph.storages.len(), "storage"),
        count(graph.bytes(), "byte")
    ))
}

/// The network in the file, if its steps are operations.
fn network(path: &Path, graph: &ScheduleGraph) -> Result<Option<ImageModel>> {
    if graph.steps.iter().any(|step| matches!(step.work, Work::Kernel(_))) {
        return Ok(None);
    }
    let text = reef_files::read_to_string(path, reef_files::MAX_TEXT_BYTES)?;
    Ok(Some(ImageModel::from_json(&text, &path.display().to_string())?))
}

/// Parameters of compiled kernels are storages.
fn fits(path: &Path, params: &Params, graph: &ScheduleGraph) -> models::Result<()> {
    let file = path.display().to_string();
    params.check(graph).map_err(|problem| models::Error::Param { file, problem })
}
