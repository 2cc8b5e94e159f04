//! Commands of `reef ctl`.

use super::{config, devices, models, status, trace};
use anyhow::Result;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Print whether the daemon serves, its devices and its models.
    Status(status::Args),
    /// List the models of the daemon's repository.
    Models(models::List),
    /// Load a model, or load it again.
    Load(models::One),
    /// Unload a model.
    Unload(models::One),
    /// Have a model on demand leave the GPU, and refuse its requests until it is resumed.
    Suspend(models::Suspend),
    /// Let a suspended model take requests again.
    Resume(models::One),
    /// Take a device out of service until the daemon restarts: its models move to others.
    Drain(devices::Args),
    /// Record what ran on the daemon's device, for Perfetto.
    Trace(trace::Args),
    /// Check or print a configuration; needs no daemon.
    #[command(subcommand)]
    Config(config::Command),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Status(args) => status::run(args),
        Command::Models(args) => models::list(args),
        Command::Load(args) => models::load(args),
        Command::Unload(args) => models::unload(args),
        Command::Suspend(args) => models::suspend(args),
        Command::Resume(args) => models::resume(args),
        Command::Drain(args) => devices::drain(args),
        Command::Trace(args) => trace::run(args),
        Command::Config(command) => config::run(command),
    }
}
