//! Commands of `reef model`.

use super::{calibrate, import, list, profile, show, verify};
use anyhow::Result;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List the models that can be built by name.
    List(list::List),
    /// Print what a model is made of, step by step.
    Show(show::Args),
    /// Make a folder of an ONNX file, or of weights in a .safetensors file.
    Import(import::Import),
    /// Make a folder of a model that is built by name, with made-up weights.
    Export(import::Export),
    /// Measure the kernels of a model on a device: MODEL.profile.json.
    Profile(profile::Args),
    /// Find the scales of a model's numbers of 8 bits: a file, and the error against floats.
    Calibrate(calibrate::args::Args),
    /// Compare a device with the reference, or with ONNX's own test data.
    Verify(verify::Args),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List(args) => list::list(args),
        Command::Show(args) => show::run(args),
        Command::Import(args) => import::import(args),
        Command::Export(args) => import::export(args),
        Command::Profile(args) => profile::run(args),
        Command::Calibrate(args) => calibrate::run::run(args),
        Command::Verify(args) => verify::run(args),
    }
}
