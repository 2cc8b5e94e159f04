//! Makes the images of device code that ship with the backends, from `kernels/*.cu`, with compilers
//! of fixed versions; with `--check` says whether what is there is what would be made.
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

use places::Places;
use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let check = env::args().any(|argument| argument == "--check");
    let places = Places::find();
    match nvidia::make::run(&places, check).and_then(|()| amd::make::run(&places, check)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kernels: {error}");
            ExitCode::FAILURE
        }
    }
}
