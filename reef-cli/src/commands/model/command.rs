//! Which of the commands.

use super::{check, import, list, onnx_tests, show, verify};
use anyhow::Result;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Lists the networks that can be built.
    List(list::List),
    /// Says what a network is made of, step by step.
    Show(show::Args),
    /// Reads a schedule graph, and the files that go with it, and says what is in them or what is
    /// wrong.
    Check(check::Args),
    /// Makes a folder of a network in an ONNX file, or of weights in a .safetensors file.
    Import(import::Import),
    /// Makes a folder of a network that is built, with made-up weights.
    Export(import::Export),
    /// Runs test data in the form of ONNX's own on a device and compares outputs with those that are wanted.
    Nodetest(onnx_tests::args::Args),
    /// Runs a network on a device and compares it with the reference: plain loops on the host.
    Verify(verify::Args),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List(args) => list::list(args),
        Command::Show(args) => show::run(args),
        Command::Check(args) => check::run(args),
        Command::Import(args) => import::import(args),
        Command::Export(args) => import::export(args),
        Command::Nodetest(args) => onnx_tests::run::run(args),
        Command::Verify(args) => verify::run(args),
    }
}
