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

pub(crate) fn run(args: &Args, command: &Command) -> Result<()> {
    let mut script = Vec::new();
    generate(args.shell, &mut visible(command), "reef", &mut script);
    print_text(&script)
}

/// The command without those that users do not call.
fn visible(command: &Command) -> Command {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    Command::new("reef")
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .subcommands(below.cloned())
}
