//! `reef model`.

mod check;
mod import;
mod show;
mod verify;

use crate::print;
use anyhow::Result;
use reef::models::{self, Model};
use std::fmt::Display;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Lists the networks that can be built.
    List(List),
    /// Says what a network is made of, step by step.
    Show(show::Args),
    /// Reads a schedule graph, and the files that go with it, and says what is in them or what is
    /// wrong.
    Check(check::Args),
    /// Makes a folder of a network in an ONNX file, or of weights in a .safetensors file.
    Import(import::Import),
    /// Makes a folder of a network that is built, with made-up weights.
    Export(import::Export),
    /// Runs a network on a device and compares it with the reference: plain loops on the host.
    Verify(verify::Args),
}

#[derive(clap::Args)]
pub(crate) struct List {
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List(args) => list(args),
        Command::Show(args) => show::run(args),
        Command::Check(args) => check::run(args),
        Command::Import(args) => import::import(args),
        Command::Export(args) => import::export(args),
        Command::Verify(args) => verify::run(args),
    }
}

fn list(args: &List) -> Result<()> {
    let networks = models::NAMES.iter().map(|&name| Ok((name, models::build(name, None, 1)?)));
    let networks = networks.collect::<models::Result<Vec<_>>>()?;
    if args.json {
        let facts: Vec<_> = networks.iter().map(|(name, model)| Facts::of(name, model)).collect();
        return print(serde_json::to_string_pretty(&facts)?);
    }
    for (name, model) in networks {
        let parameters = model.parameters() as f64 / 1e6;
        let steps = model.graph().steps.len();
        let size = model.input().height;
        print(format_args!(
            "{name:<13} {size}x{size}  {steps:>3} steps  {parameters:>5.1} M parameters"
        ))?;
    }
    Ok(())
}

/// What is in a network, for programs.
#[derive(serde::Serialize)]
struct Facts {
    name: String,
    steps: usize,
    parameters: usize,
    /// Batch, channels, rows, columns.
    input: [usize; 4],
    output: [usize; 4],
}

impl Facts {
    fn of(name: impl Display, model: &Model) -> Self {
        Self {
            name: name.to_string(),
            steps: model.layers().len(),
            parameters: model.parameters(),
            input: model.input().shape(),
            output: model.output().shape(),
        }
    }
}

/// Says what is in a network.
fn describe(place: impl Display, model: &Model) -> Result<()> {
    let Facts { name, steps, parameters, input, output: [batch, classes, ..] } =
        Facts::of(place, model);
    print(format_args!(
        "{name}: {steps} steps, {:.2} M parameters, {} to {batch}x{classes}",
        parameters as f64 / 1e6,
        input.map(|side| side.to_string()).join("x"),
    ))
}
