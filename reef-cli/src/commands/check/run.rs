//! Arguments and course of the command.

use super::report;
use super::verdicts::read;
use crate::report::output::print;
use crate::report::usage::Usage;
use anyhow::Result;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Program, shared library, fatbin, CUBIN or PTX.
    file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let wrong = |error: &dyn std::fmt::Display| Usage(format!("{}: {error}", args.file.display()));
    let bytes = std::fs::read(&args.file).map_err(|error| wrong(&error))?;
    let found = read(&bytes).map_err(|error| wrong(&error))?;
    if args.json {
        return print(serde_json::to_string_pretty(&report::json(&found))?);
    }
    report::lines(&found).into_iter().try_for_each(print)
}
