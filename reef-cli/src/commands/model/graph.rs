//! `reef model check`: what is in files, or what is wrong with them.

use crate::report::output::print;
use anyhow::Result;
use reef::models::{self, Model, ScheduleGraph, Work, param::Params, profile::Latencies};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A schedule graph: REEF's MODEL.json, or the model.json of a folder.
    graph: PathBuf,
    /// Its weights, MODEL.param.
    #[arg(long)]
    param: Option<PathBuf>,
    /// Its kernel latencies, MODEL.profile.json.
    #[arg(long)]
    profile: Option<PathBuf>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let graph = ScheduleGraph::load(&args.graph)?;
    let model = network(&args.graph, &graph)?;
    if let Some(path) = &args.param {
        let params = Params::load(path)?;
        match &model {
            Some(model) => drop(model.params(&params)?),
            None => fits(path, &params, &graph)?,
        }
    }
    let profile = args.profile.as_deref();
    let profiled = profile.map(|path| profiled(path, &graph, model.as_ref())).transpose()?;
    if args.json {
        return print(serde_json::to_string_pretty(&json(args, &graph, profiled))?);
    }
    describe(&args.graph, &graph)?;
    if let Some(path) = &args.param {
        print(format_args!("{}: fits", path.display()))?;
    }
    match (profile, profiled) {
        (Some(path), Some(kernels)) => {
            print(format_args!("{}: latencies of {kernels} kernels", path.display()))
        }
        _ => Ok(()),
    }
}

/// Of how many kernels a file has latencies.
fn profiled(path: &Path, graph: &ScheduleGraph, model: Option<&Model>) -> models::Result<usize> {
    let latencies = Latencies::load(path)?;
    Ok(match model {
        Some(_) => latencies.kernels.len(),
        None => latencies.profiles_of(graph).len(),
    })
}

fn json(args: &Args, graph: &ScheduleGraph, profiled: Option<usize>) -> Value {
    json!({
        "graph": args.graph,
        "launches": graph.steps.len(),
        "kernels": graph.kernels().len(),
        "storages": graph.storages.len(),
        "bytes": graph.bytes(),
        "param_fits": args.param.as_ref().map(|_| true), // or it would have been an error
        "profiled_kernels": profiled,
    })
}

fn describe(path: &Path, graph: &ScheduleGraph) -> Result<()> {
    print(format_args!(
        "{}: {} launches of {} kernels, {} storages, {} bytes",
        path.display(),
        graph.steps.len(),
        graph.kernels().len(),
        graph.storages.len(),
        graph.bytes()
    ))
}

/// The network in the file, if its steps are operations.
fn network(path: &Path, graph: &ScheduleGraph) -> Result<Option<Model>> {
    if graph.steps.iter().any(|step| matches!(step.work, Work::Kernel(_))) {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path)?;
    Ok(Some(Model::from_json(&text, &path.display().to_string())?))
}

/// Parameters of compiled kernels are storages.
fn fits(path: &Path, params: &Params, graph: &ScheduleGraph) -> models::Result<()> {
    let file = path.display().to_string();
    params.check(graph).map_err(|problem| models::Error::Param { file, problem })
}
