//! `reef bench`: numbers to compare, each beside its baselines in one run.

mod disb;
mod networks;
mod pair;
mod policy;
mod preempt;
mod time;

use anyhow::Result;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// How soon a real-time kernel runs on a device full of best-effort work, and what that costs.
    Preempt(preempt::Args),
    /// A real-time network at fixed rates beside a best-effort network in a closed loop.
    Pair(pair::Args),
    /// How long whole inferences take on a device that has nothing else to do.
    Networks(networks::Args),
    /// The workloads of DISB under REEF and its baselines.
    Disb(disb::Args),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Preempt(args) => preempt::run(args),
        Command::Pair(args) => pair::run(args),
        Command::Networks(args) => networks::run(args),
        Command::Disb(args) => disb::run(args),
    }
}
