//! Arguments and course of the command.

use super::verdicts::read;
use super::{again, report};
use crate::report::output::print;
use crate::report::usage::Usage;
use anyhow::Result;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Program, shared library, fatbin, CUBIN or PTX.
    #[arg(required_unless_present = "exec", conflicts_with = "exec")]
    file: Option<PathBuf>,
    /// Run a program, and its kernels again: what they leave then shows which of them are not
    /// idempotent.
    #[arg(long, requires = "program")]
    exec: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Program for --exec and its arguments.
    #[arg(last = true, requires = "exec")]
    program: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let Some(file) = &args.file else { return again::run(&args.program, args.json) };
    let wrong = |error: &dyn std::fmt::Display| Usage(format!("{}: {error}", file.display()));
    if file.extension().is_some_and(|extension| extension == "onnx") {
        return Err(wrong(&"an ONNX file has no kernels: reef model show describes it").into());
    }
    let bytes =
        reef_files::read(file, reef_files::MAX_INPUT_BYTES).map_err(|error| wrong(&error))?;
    let found = read(&bytes).map_err(|error| wrong(&error))?;
    if args.json {
        return print(serde_json::to_string_pretty(&report::json(&found))?);
    }
    report::lines(&found).into_iter().try_for_each(print)
}
