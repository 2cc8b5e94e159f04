//! `reef model check`: what is in files, or what is wrong with them.

use crate::print;
use anyhow::Result;
use reef::models::{self, Model, ScheduleGraph, Work, param::Params, profile::Latencies};
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
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let path = &args.graph;
    let graph = ScheduleGraph::load(path)?;
    print(format_args!(
        "{}: {} launches of {} kernels, {} storages, {} bytes",
        path.display(),
        graph.steps.len(),
        graph.kernels().len(),
        graph.storages.len(),
        graph.bytes()
    ))?;
    let model = network(path, &graph)?;
    if let Some(path) = &args.param {
        let params = Params::load(path)?;
        match &model {
            Some(model) => drop(model.params(&params)?),
            None => fits(path, &params, &graph)?,
        }
        print(format_args!("{}: fits", path.display()))?;
    }
    if let Some(path) = &args.profile {
        let latencies = Latencies::load(path)?;
        let kernels = match &model {
            Some(_) => latencies.kernels.len(),
            None => latencies.profiles_of(&graph).len(),
        };
        print(format_args!("{}: latencies of {kernels} kernels", path.display()))?;
    }
    Ok(())
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
