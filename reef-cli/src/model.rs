//! `reef model`.

mod check;
mod import;
mod verify;

use crate::print;
use anyhow::Result;
use reef::models::{self, Model};
use std::path::Path;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Lists the networks that can be built.
    List,
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

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List => list(),
        Command::Check(args) => check::run(args),
        Command::Import(args) => import::import(args),
        Command::Export(args) => import::export(args),
        Command::Verify(args) => verify::run(args),
    }
}

fn list() -> Result<()> {
    for &name in models::NAMES {
        let model = models::build(name, None, 1)?;
        let parameters = model.parameters() as f64 / 1e6;
        let steps = model.graph().steps.len();
        let size = model.input().height;
        print(format_args!(
            "{name:<13} {size}x{size}  {steps:>3} steps  {parameters:>5.1} M parameters"
        ))?;
    }
    Ok(())
}

/// Says what is in a network.
fn describe(place: &Path, model: &Model) -> Result<()> {
    let (from, to) = (model.input(), model.output());
    print(format_args!(
        "{}: {} steps, {:.2} M parameters, {}x{}x{}x{} to {}x{}",
        place.display(),
        model.layers().len(),
        model.parameters() as f64 / 1e6,
        from.batch,
        from.channels,
        from.height,
        from.width,
        to.batch,
        to.channels
    ))
}
