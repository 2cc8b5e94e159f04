//! `reef model`.

use crate::print;
use anyhow::Result;
use reef::models::{self, ScheduleGraph, param::Params, profile::Latencies};
use std::path::PathBuf;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Lists the networks that can be built.
    List,
    /// Reads a schedule graph, and the files that go with it, and says what is in them or what is
    /// wrong.
    Check {
        /// A schedule graph in REEF's format, MODEL.json.
        graph: PathBuf,
        /// Its weights, MODEL.param.
        #[arg(long)]
        param: Option<PathBuf>,
        /// Its kernel latencies, MODEL.profile.json.
        #[arg(long)]
        profile: Option<PathBuf>,
    },
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List => list(),
        Command::Check { graph, param, profile } => check(graph, param.as_ref(), profile.as_ref()),
    }
}

fn list() -> Result<()> {
    for &name in models::NAMES {
        let model = models::build(name, None, 1)?;
        let parameters = model.parameters() as f64 / 1e6;
        let steps = model.graph().steps.len();
        let size = model.input().height;
        print(format_args!(
            "{name:<13} {size}x{size}  {steps:>3} steps  {parameters:>5.1} M parameters"
        ))?;
    }
    Ok(())
}

fn check(path: &PathBuf, param: Option<&PathBuf>, profile: Option<&PathBuf>) -> Result<()> {
    let graph = ScheduleGraph::load(path)?;
    print(format_args!(
        "{}: {} launches of {} kernels, {} storages, {} bytes",
        path.display(),
        graph.steps.len(),
        graph.kernels().len(),
        graph.storages.len(),
        graph.bytes()
    ))?;
    if let Some(path) = param {
        let params = Params::load(path)?;
        let file = path.display().to_string();
        params.check(&graph).map_err(|problem| models::Error::Param { file, problem })?;
        print(format_args!("{}: fits", path.display()))?;
    }
    if let Some(path) = profile {
        let profiles = Latencies::load(path)?.profiles_of(&graph);
        print(format_args!("{}: latencies of {} kernels", path.display(), profiles.len()))?;
    }
    Ok(())
}
