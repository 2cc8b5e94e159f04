//! `reef`: real-time next to best-effort inference on one accelerator.
//!
//! Exit codes: 0 done, 1 the work failed, 2 the input or the command line is wrong.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

/// Prints a line on stderr, without control characters of what it quotes. Where its reader has gone
/// the work goes on; `eprintln!` panics.
macro_rules! note {
    ($($line:tt)*) => {{
        use std::io::Write as _;
        let line = $crate::report::output::printable(&format_args!($($line)*).to_string());
        let _ = writeln!(std::io::stderr(), "{line}");
    }};
}

mod commands;
#[cfg(all(test, feature = "bench", feature = "remote", not(feature = "gfx906-sim")))]
mod documented;
#[cfg(feature = "daemon")]
mod remote;
mod report;
mod workload;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
#[cfg(not(feature = "remote"))]
use commands::left_out::remote as remote_devices;
#[cfg(not(feature = "bench"))]
use commands::left_out::{bench, simulate};
#[cfg(not(feature = "daemon"))]
use commands::left_out::{check, ctl, doctor, exec, k8s, request, serve, suspend, top};
#[cfg(feature = "remote")]
use commands::remote as remote_devices;
#[cfg(feature = "bench")]
use commands::{bench, simulate};
#[cfg(feature = "daemon")]
use commands::{check, ctl, doctor, exec, k8s, request, serve, suspend, top};
use commands::{completions, demo, devices, man, model, restore, run};
use report::output::is_unread;
use report::usage::{describe, is_input};
use std::process::ExitCode;

/// Exit codes, for scripts.
const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the work failed: a device, a daemon, a comparison
  2  the command line or an input file is wrong; nothing was done";

/// First line of the help.
const ABOUT: &str = "Run real-time next to best-effort work on one accelerator";

#[derive(Parser)]
#[command(name = "reef", version, about = ABOUT, after_help = EXIT_CODES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Put a software MI50 under AMD's runtime, as hip:0.
    #[cfg(feature = "gfx906-sim")]
    #[arg(long, global = true)]
    gfx906_sim: bool,
}

#[derive(Subcommand)]
enum Command {
    /// See it work: real-time next to best-effort inference, under REEF and its baselines.
    Demo(demo::args::Args),
    /// Check what works on this machine, with a remedy for what does not.
    Doctor(doctor::run::Args),
    /// List the devices of every backend in this build.
    Devices(devices::Args),
    /// Run one inference and print or save the output.
    Run(run::args::Args),
    /// List, inspect, convert, profile and verify models.
    #[command(subcommand)]
    Model(model::command::Command),
    /// Serve inference to other processes over the KServe v2 protocol, as Triton does.
    Serve(serve::Args),
    /// Control a running daemon.
    #[cfg_attr(feature = "daemon", command(subcommand))]
    Ctl(ctl::command::Command),
    /// Watch a daemon: devices, clients, requests, times, preemptions.
    Top(top::run::Args),
    /// Send requests to a daemon and print the time of each inference.
    Request(request::Args),
    /// Run an unmodified CUDA program under REEF.
    Exec(exec::run::Args),
    /// Tell which kernels of a file can be stopped, and which may run again.
    Check(check::run::Args),
    /// Take a program off the GPU: its memory is free, and it waits.
    Suspend(suspend::Suspend),
    /// Bring a suspended program back to its GPU.
    Resume(suspend::Resume),
    /// Move a program to another GPU.
    Move(suspend::Move),
    /// Write a suspended program to a folder (CRIU).
    Checkpoint(suspend::Checkpoint),
    /// Continue from a folder of `reef checkpoint` or `reef run --checkpoint`.
    Restore(restore::Args),
    /// Make the driver's calls of the three above.
    #[command(hide = true)]
    Checkpointer,
    /// Measure preemption, colocation and the daemon.
    #[cfg_attr(feature = "bench", command(subcommand))]
    Bench(bench::command::Command),
    /// Simulate a fleet of devices from measured profiles.
    Simulate(simulate::Args),
    /// Offer both classes to the pods of a Kubernetes node.
    #[cfg_attr(feature = "daemon", command(subcommand))]
    K8s(k8s::Command),
    /// Use devices of other machines.
    #[cfg_attr(feature = "remote", command(subcommand))]
    Remote(remote_devices::command::Command),
    /// Print a completion script for a shell.
    Completions(completions::Args),
    /// Print the manual page.
    Man,
}

fn main() -> ExitCode {
    reef_files::on_large_stack(run_command)
}

/// Does what the command line says. The frames of clap alone take more than 64 KiB.
fn run_command() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(said) => return say(&said),
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_unread(&error) => ExitCode::SUCCESS,
        Err(error) => {
            note!("reef: {}", describe(&error));
            ExitCode::from(if is_input(&error) { 2 } else { 1 })
        }
    }
}

/// Reads the command line of this process.
fn parse() -> Result<Cli, clap::Error> {
    let mut command = with_negative_numbers(Cli::command());
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Prints what clap says in its own words: help, or an error.
fn say(said: &clap::Error) -> ExitCode {
    match said.print() {
        Err(error) if !said.use_stderr() && error.kind() != std::io::ErrorKind::BrokenPipe => {
            note!("reef: stdout: {error}");
            ExitCode::FAILURE
        }
        _ if said.use_stderr() => ExitCode::from(2),
        _ => ExitCode::SUCCESS,
    }
}

/// Lets options have negative numbers as values. An option that takes none says so; otherwise `-1`
/// is taken for an option.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| {
        let takes_values = arg.get_action().takes_values();
        arg.allow_negative_numbers(takes_values)
    });
    command.mut_subcommands(with_negative_numbers)
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let simulated = load_software(&cli)?;
    match cli.command {
        Command::Demo(args) => demo::run::run(args, simulated),
        Command::Doctor(args) => doctor::run::run(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Run(args) => run::command::run(args),
        Command::Restore(args) => restore::run(args),
        Command::Model(command) => model::command::run(&command),
        Command::Serve(args) => serve::run(&args),
        Command::Ctl(command) => ctl::command::run(&command),
        Command::Top(args) => top::run::run(&args),
        Command::Request(args) => request::run(&args),
        Command::Exec(args) => exec::run::run(&args),
        Command::Check(args) => check::run::run(&args),
        Command::Suspend(args) => suspend::suspend(&args),
        Command::Resume(args) => suspend::resume(&args),
        Command::Move(args) => suspend::move_to(&args),
        Command::Checkpoint(args) => suspend::checkpoint(&args),
        Command::Checkpointer => suspend::checkpointer(),
        Command::Bench(command) => bench::command::run(command),
        Command::Simulate(args) => simulate::run(&args),
        Command::K8s(command) => k8s::run(&command),
        Command::Remote(command) => remote_devices::command::run(command),
        Command::Completions(args) => completions::run(&args, &Cli::command()),
        Command::Man => man::run(Cli::command()),
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

#[cfg(all(test, feature = "bench", feature = "remote", not(feature = "gfx906-sim")))]
mod tests {
    use super::*;

    #[test]
    fn every_command_line_of_the_documents_is_read() {
        documented::check_lines(&Cli::command());
    }

    #[test]
    fn every_command_and_option_in_prose_exists() {
        documented::check_prose(&Cli::command());
    }

    #[test]
    fn every_setting_of_the_documents_is_known() {
        documented::check_settings();
    }

    #[test]
    fn every_key_of_the_daemon_in_prose_exists() {
        documented::check_keys();
    }

    #[test]
    fn every_path_of_the_daemon_has_a_route() {
        documented::check_paths();
    }

    #[test]
    fn every_default_of_an_option_is_a_value_of_it() {
        documented::check_defaults(&Cli::command());
    }

    #[test]
    fn every_value_in_the_help_of_an_option_is_read() {
        documented::check_help(&Cli::command());
    }

    #[test]
    fn faults_in_documents_are_found() {
        documented::check_itself(&Cli::command());
    }
}
