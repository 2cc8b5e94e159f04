//! `reef ctl config`: what a daemon would be started with.

use crate::commands::serve::{Sources, as_toml, reader};
use crate::report::output::print;
use anyhow::Result;
use reef_serve::Config;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Validate configuration, files, ports, device and models.
    Check(Sources),
    /// Print the effective configuration as TOML.
    Show(Sources),
    /// Print all keys with their defaults as TOML.
    Default,
}

pub(super) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Check(sources) => {
            reef_serve::check(&reader(sources)()?)?;
            print("ok")
        }
        Command::Show(sources) => print(as_toml(&reader(sources)()?)?),
        Command::Default => print(as_toml(&Config::default())?),
    }
}
