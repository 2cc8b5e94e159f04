//! Makes the images of device code that ship with the backends, from `kernels/*.cu`, with compilers
//! of fixed versions; with `--check` says whether what is there is what would be made.
//!
//! `cargo xtask kernels` runs it. It is a crate of its own so that xtask needs no dependencies and
//! the backends can be built from images that are not there yet.

mod amd;
mod folder;
mod nvidia;
#[path = "../../../reef-cuda/src/code/nvrtc.rs"]
#[allow(dead_code)] // reef-cuda searches for the library; here its path is known
mod nvrtc;
mod sources;

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Where things are.
struct Places {
    /// Of the repository.
    root: PathBuf,
    /// What is made and fetched.
    target: PathBuf,
}

impl Places {
    fn find() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target = env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
        Self { root, target }
    }

    fn sources(&self) -> PathBuf {
        self.root.join("kernels")
    }
}

fn main() -> ExitCode {
    let check = env::args().any(|argument| argument == "--check");
    let places = Places::find();
    match nvidia::run(&places, check).and_then(|()| amd::run(&places, check)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kernels: {error}");
            ExitCode::FAILURE
        }
    }
}
