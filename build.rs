//! Finds what can compile device code ahead of time, for the backends that are switched on.
//!
//! Nothing has to be there: without an SDK the crate builds all the same.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for (feature, home, default, program) in [
        ("CUDA", "CUDA_HOME", "/usr/local/cuda", "nvcc"),
        ("HIP", "ROCM_PATH", "/opt/rocm", "hipcc"),
    ] {
        println!("cargo::rerun-if-env-changed={home}");
        let wanted = std::env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
        let found = wanted.then(|| find(home, default, program)).flatten().unwrap_or_default();
        println!("cargo::rustc-env=REEF_{feature}_COMPILER={}", found.display());
    }
}

/// `program` in `$home/bin`, `default/bin` or the search path.
fn find(home: &str, default: &str, program: &str) -> Option<PathBuf> {
    let home = std::env::var_os(home).unwrap_or_else(|| default.into());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(Path::new(&home).join("bin")).chain(std::env::split_paths(&path));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}
