//! `reef bench`: which bench.

use super::{
    churn, cluster, colocate, device_bench, disb, hung, launch, local, networks, saturate, start,
};
use crate::report::device::resolve;
use anyhow::Result;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Measure the start of a real-time kernel on a device full of best-effort work.
    Start(start::args::Args),
    /// Measure a real-time network at fixed rates next to a best-effort network.
    Colocate(colocate::args::Args),
    /// Measure best-effort work next to real-time work that never pauses.
    Saturate(saturate::args::Args),
    /// Measure submitting and launching commands that do nothing.
    Launch(launch::args::Args),
    /// Measure real-time requests while best-effort clients come and go.
    Churn(churn::args::Args),
    /// Measure best-effort clients next to a kernel that does not end.
    Hung(hung::args::Args),
    /// Measure what a daemon's shared memory adds to a request.
    Local(local::args::Args),
    /// Measure several devices of one process against one device alone.
    Cluster(cluster::args::Args),
    /// Measure whole inferences on an idle device.
    Networks(networks::Args),
    /// Run the workloads of DISB under REEF and its baselines.
    Disb(disb::args::Args),
}

pub(crate) fn run(mut command: Command) -> Result<()> {
    let common = match &mut command {
        Command::Start(args) => Some(&mut args.common),
        Command::Launch(args) => Some(&mut args.common),
        Command::Saturate(args) => Some(&mut args.common),
        Command::Colocate(args) => Some(&mut args.common),
        Command::Churn(args) => Some(&mut args.common),
        Command::Hung(args) => Some(&mut args.common),
        Command::Local(args) => Some(&mut args.common),
        Command::Cluster(args) => Some(&mut args.common),
        Command::Networks(args) => Some(&mut args.common),
        Command::Disb(args) => (!args.daemon).then_some(&mut args.common),
    };
    if let Some(common) = common {
        common.device = resolve(&common.device)?;
    }
    match &command {
        Command::Start(args) => device_bench::run(args, &args.common),
        Command::Launch(args) => device_bench::run(args, &args.common),
        Command::Saturate(args) => device_bench::run(args, &args.common),
        Command::Colocate(args) => device_bench::run(args, &args.common),
        Command::Churn(args) => device_bench::run(args, &args.common),
        Command::Hung(args) => device_bench::run(args, &args.common),
        Command::Local(args) => device_bench::run(args, &args.common),
        Command::Cluster(args) => cluster::run::run(args),
        Command::Networks(args) => device_bench::run(args, &args.common),
        Command::Disb(args) => disb::run::run(args),
    }
}
