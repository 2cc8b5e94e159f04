//! `reef completions`: what shells complete.

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::{Shell, generate};
use std::io::Write;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Shell. For bash: reef completions bash |
    /// install -D /dev/stdin ~/.local/share/bash-completion/completions/reef
    shell: Shell,
}

pub(crate) fn run(args: &Args, mut command: Command) -> Result<()> {
    let mut script = Vec::new();
    generate(args.shell, &mut command, "reef", &mut script);
    std::io::stdout().write_all(&script).context("stdout")
}
