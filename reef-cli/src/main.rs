//! `reef`: real-time beside best-effort inference on one accelerator.
//!
//! Exit codes: 0 done, 1 the work failed, 2 the input or the command line is wrong.

mod bench;
mod chart;
mod client;
mod clients;
mod columns;
mod completions;
mod daemon;
mod demo;
mod devices;
mod model;
mod networks;
mod profile;
mod progress;
mod results;
mod run;
mod scrape;
mod serve;
mod table;
mod top;
mod trace;

use anyhow::Context;
use clap::{Parser, Subcommand};
use reef::models;
use std::fmt::{self, Display};
use std::io::{self, Write};
use std::process::ExitCode;

/// What scripts go by.
const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the work failed: a device, a daemon, a comparison
  2  the command line or an input file is wrong; nothing was done";

#[derive(Parser)]
#[command(name = "reef", version, about, after_help = EXIT_CODES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Puts a software MI50 under AMD's runtime, which takes it for `hip:0`.
    #[cfg(feature = "gfx906-sim")]
    #[arg(long, global = true)]
    gfx906_sim: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Shows real-time inference beside best-effort inference, under REEF and its baselines.
    Demo(demo::Args),
    /// Measures preemption, or a real-time network beside a best-effort one.
    #[command(subcommand)]
    Bench(bench::Command),
    /// Runs a model on a daemon and prints how long each inference takes.
    Client(client::Args),
    /// Prints a script with which a shell completes this command.
    Completions(completions::Args),
    /// Lists the devices of every backend that is compiled in.
    Devices(devices::Args),
    /// Lists and checks models.
    #[command(subcommand)]
    Model(model::Command),
    /// Measures the kernels of a network on a device: MODEL.profile.json.
    Profile(profile::Args),
    /// Shows a network pictures and prints what it sees.
    Run(run::Args),
    /// Serves inference to other processes, over the protocol of KServe v2 and Triton.
    Serve(serve::Args),
    /// Shows what a daemon does: devices, clients, requests, times, preemptions.
    Top(top::Args),
    /// Traces a daemon's device for a while, for Perfetto.
    Trace(trace::Args),
}

fn main() -> ExitCode {
    // clap prints its own errors in its own words and exits with 2.
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_unread(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reef: {error:#}");
            ExitCode::from(if is_input(&error) { 2 } else { 1 })
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let simulated = simulate(&cli)?;
    match cli.command {
        Command::Bench(command) => bench::run(&command),
        Command::Client(args) => client::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Demo(args) => demo::run(&args, simulated),
        Command::Devices(args) => devices::run(&args),
        Command::Model(command) => model::run(&command),
        Command::Profile(args) => profile::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Trace(args) => trace::run(&args),
    }
}

/// Puts the software device under AMD's runtime if that is asked for; whether it is.
fn simulate(_cli: &Cli) -> anyhow::Result<bool> {
    #[cfg(feature = "gfx906-sim")]
    if _cli.gfx906_sim {
        reef_gfx906::Software::load().context("the software gfx906")?;
        return Ok(true);
    }
    Ok(false)
}

/// Prints a line on stdout.
fn print(line: impl Display) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{line}").context("stdout")
}

/// Whether the one who reads our output has seen enough, as `head` does.
fn is_unread(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Whether whoever typed the command can mend the error.
fn is_input(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<reef::Error>().is_some_and(is_asked)
            || cause.downcast_ref::<models::Error>().is_some_and(|error| match error {
                models::Error::Device(error) => is_asked(error),
                _ => true,
            })
            || cause.downcast_ref::<reef_serve::Error>().is_some_and(is_refused)
            || cause.is::<Usage>()
    })
}

/// Whether what was asked is wrong, and not what came of it.
fn is_asked(error: &reef::Error) -> bool {
    use reef::Error::{Invalid, Level, NotFound, Unsupported};
    matches!(error, Invalid(_) | NotFound(_) | Level { .. } | Unsupported { .. })
}

/// The same of the daemon.
fn is_refused(error: &reef_serve::Error) -> bool {
    use reef_serve::Error::{Exists, Invalid, NotFound, Unimplemented};
    matches!(error, Exists(_) | Invalid(_) | NotFound(_) | Unimplemented(_))
}

/// An error of whoever typed the command.
#[derive(Debug)]
struct Usage(String);

impl Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}
