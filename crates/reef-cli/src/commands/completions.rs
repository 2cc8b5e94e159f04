//! `reef completions`: what shells complete.

use crate::report::output::print_text;
use anyhow::Result;
use clap::Command;
use clap_complete::{Shell, generate};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Shell. For bash: reef completions bash |
    /// install -D /dev/stdin ~/.local/share/bash-completion/completions/reef
    shell: Shell,
}

pub(crate) fn run(args: &Args, mut command: Command) -> Result<()> {
    let mut script = Vec::new();
    generate(args.shell, &mut command, "reef", &mut script);
    print_text(&script)
}
