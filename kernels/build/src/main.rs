//! Makes the images of device code that ship with the backends, from `kernels/*.cu`, with compilers
//! of fixed versions; with `--check` says whether what is there is what would be made. Names of
//! sources, such as `network`, choose those alone.
//!
//! `cargo xtask kernels` runs it. It is a crate of its own so that xtask needs no dependencies and
//! the backends can be built from images that are not there yet.

mod amd;
mod error;
mod folder;
mod nvidia;
#[path = "../../../reef-cuda/src/code/nvrtc.rs"]
#[allow(dead_code)] // reef-cuda searches for the library; here its path is known
mod nvrtc;
mod places;
mod sources;

use error::Result;
use places::Places;
use sources::Selection;
use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kernels: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let (options, names): (Vec<_>, Vec<_>) =
        env::args().skip(1).partition(|argument| argument.starts_with('-'));
    if let Some(option) = options.iter().find(|option| *option != "--check") {
        return Err(format!("option: must be --check, got {option}").into());
    }
    let (places, check) = (Places::find(), !options.is_empty());
    let selection = Selection::of(names, &places.sources())?;
    nvidia::make::run(&places, &selection, check)?;
    amd::make::run(&places, &selection, check)
}
