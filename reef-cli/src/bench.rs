//! `reef bench`: numbers to compare, each beside its baselines in one run.

mod disb;
mod launch;
mod networks;
mod pad;
mod pair;
mod policy;
mod preempt;
mod time;

use anyhow::Result;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// How soon a real-time kernel runs on a device full of best-effort work, and what that costs.
    Preempt(preempt::Args),
    /// What it costs to submit and to launch commands that do nothing.
    Launch(launch::Args),
    /// A real-time network at fixed rates beside a best-effort network in a closed loop.
    Pair(pair::Args),
    /// What best-effort work keeps beside real-time work that never pauses, and what that costs.
    Pad(pad::Args),
    /// How long whole inferences take on a device that has nothing else to do.
    Networks(networks::Args),
    /// The workloads of DISB under REEF and its baselines.
    Disb(disb::Args),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Preempt(args) => preempt::run(args),
        Command::Launch(args) => launch::run(args),
        Command::Pad(args) => pad::run(args),
        Command::Pair(args) => pair::run(args),
        Command::Networks(args) => networks::run(args),
        Command::Disb(args) => disb::run(args),
    }
}
