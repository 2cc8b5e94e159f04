//! `reef bench`: which bench.

use super::{churn, cluster, colocate, disb, launch, local, networks, saturate, start};
use anyhow::Result;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// How soon a real-time kernel runs on a device full of best-effort work, and what that costs.
    Preempt(start::args::Args),
    /// What it costs to submit and to launch commands that do nothing.
    Launch(launch::args::Args),
    /// A real-time network at fixed rates beside a best-effort network in a closed loop.
    Pair(colocate::args::Args),
    /// What best-effort work keeps beside real-time work that never pauses, and what that costs.
    Pad(saturate::args::Args),
    /// What real-time requests pay while best-effort clients come and go.
    Churn(churn::args::Args),
    /// What the way through a daemon's shared memory adds to a request.
    Local(local::args::Args),
    /// What several devices of one process do together, beside what one does alone.
    Cluster(cluster::args::Args),
    /// How long whole inferences take on a device that has nothing else to do.
    Networks(networks::Args),
    /// The workloads of DISB under REEF and its baselines.
    Disb(disb::args::Args),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Preempt(args) => start::run::run(args),
        Command::Launch(args) => launch::run::run(args),
        Command::Pad(args) => saturate::run::run(args),
        Command::Pair(args) => colocate::run::run(args),
        Command::Churn(args) => churn::run::run(args),
        Command::Local(args) => local::run::run(args),
        Command::Cluster(args) => cluster::run::run(args),
        Command::Networks(args) => networks::run(args),
        Command::Disb(args) => disb::run::run(args),
    }
}
