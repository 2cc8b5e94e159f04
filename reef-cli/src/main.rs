//! `reef`: real-time beside best-effort inference on one accelerator.
//!
//! Exit codes: 0 done, 1 the work failed, 2 the input or the command line is wrong.

mod commands;
#[cfg(feature = "daemon")]
mod remote;
mod report;
mod workload;

use clap::{CommandFactory, Parser, Subcommand};
#[cfg(not(feature = "bench"))]
use commands::left_out::{bench, simulate};
#[cfg(not(feature = "daemon"))]
use commands::left_out::{ctl, exec, k8s, request, serve, top};
#[cfg(feature = "bench")]
use commands::{bench, simulate};
use commands::{completions, demo, devices, model, run};
#[cfg(feature = "daemon")]
use commands::{ctl, exec, k8s, request, serve, top};
use report::output::is_unread;
use report::usage::is_input;
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
    Demo(demo::args::Args),
    /// Measures preemption, or a real-time network beside a best-effort one.
    #[cfg_attr(feature = "bench", command(subcommand))]
    Bench(bench::command::Command),
    /// Runs a model on a daemon and prints how long each inference takes.
    Client(request::Args),
    /// Prints a script with which a shell completes this command.
    Completions(completions::Args),
    /// Lists the devices of every backend that is compiled in.
    Devices(devices::Args),
    /// Runs a program that knows nothing of REEF, as a guest of a daemon.
    Exec(exec::run::Args),
    /// Offers both classes to the pods of a Kubernetes node.
    #[cfg_attr(feature = "daemon", command(subcommand))]
    K8s(k8s::Command),
    /// Lists and checks models.
    #[command(subcommand)]
    Model(model::command::Command),
    /// Measures the kernels of a network on a device: MODEL.profile.json.
    Profile(model::profile::Args),
    /// Shows a network pictures and prints what it sees.
    Run(run::args::Args),
    /// Serves inference to other processes, over the protocol of KServe v2 and Triton.
    Serve(serve::Args),
    /// Simulates a fleet of devices, from measured profiles, under schedulers and placements.
    Simulate(simulate::Args),
    /// Shows what a daemon does: devices, clients, requests, times, preemptions.
    Top(top::args::Args),
    /// Traces a daemon's device for a while, for Perfetto.
    Trace(ctl::trace::Args),
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
    let simulated = load_software(&cli)?;
    match cli.command {
        Command::Bench(command) => bench::command::run(&command),
        Command::Client(args) => request::run(&args),
        Command::Completions(args) => completions::run(&args, Cli::command()),
        Command::Demo(args) => demo::run::run(&args, simulated),
        Command::Devices(args) => devices::run(&args),
        Command::Exec(args) => exec::run::run(&args),
        Command::K8s(command) => k8s::run(&command),
        Command::Model(command) => model::command::run(&command),
        Command::Profile(args) => model::profile::run(&args),
        Command::Run(args) => run::command::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Top(args) => top::run::run(&args),
        Command::Trace(args) => ctl::trace::run(&args),
    }
}

/// Puts the software device under AMD's runtime if that is asked for; whether it is.
fn load_software(_cli: &Cli) -> anyhow::Result<bool> {
    #[cfg(feature = "gfx906-sim")]
    if _cli.gfx906_sim {
        anyhow::Context::context(reef_gfx906::Software::load(), "the software gfx906")?;
        return Ok(true);
    }
    Ok(false)
}
