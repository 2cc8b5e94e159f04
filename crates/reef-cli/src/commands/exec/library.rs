//! Libraries that take the place of the driver's in unmodified programs.

use anyhow::{Context, Result, bail};
use reef_guest::library_path::candidates;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Library of the GPU's driver.
pub(crate) const DRIVER: &str = "libcuda.so.1";
/// Variable that names it.
pub(crate) const DRIVER_VARIABLE: &str = "REEF_CUDA";

/// Library that programs take for the driver.
pub(crate) const SHIM: &str = "libreef_cuda_shim.so";
/// Library that they take for the driver if their GPU is in another machine.
pub(crate) const REMOTE: &str = "libreef_remote_cuda.so";
/// Library that they take for the CUDA runtime then.
pub(crate) const RUNTIME: &str = "libreef_cudart.so";
/// Name of the driver's management library.
pub(crate) const NVML: &str = "libnvidia-ml.so.1";
/// Variable that names it.
pub(crate) const NVML_VARIABLE: &str = "REEF_NVML_LIBRARY";
/// Library that they take for it if their memory is limited.
pub(crate) const NVML_SHIM: &str = "libreef_nvml_shim.so";

/// First bytes of programs and libraries.
const ELF: [u8; 4] = *b"\x7fELF";

/// Folders of libraries, from that of this program. The linker does not know `lib/reef`: a library
/// has inside the name of what it replaces, by which `ldconfig` would link it for all programs.
const FOLDERS: [&str; 4] = ["", "deps", "../lib/reef", "../lib"];

/// Finds a library: the named one, that of the variable, or one next to this program.
///
/// # Errors
///
/// There is none; says the files that were tried. The file is not a library: the linker would pass
/// over it, and the program would run without REEF.
pub(crate) fn library(name: &str, named: Option<&Path>, variable: &str) -> Result<PathBuf> {
    let named = named.map(Path::to_owned).or_else(|| std::env::var_os(variable).map(PathBuf::from));
    let own = std::env::current_exe().context("where this program is")?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let searched = || FOLDERS.map(|below| folder.join(below).join(name)).to_vec();
    let tried: Vec<PathBuf> = named.map_or_else(searched, |named| vec![named]);
    let path = first(name, &tried)?;
    if !is_library(path) {
        bail!("{}: must be a shared library that can be read", path.display());
    }
    path.canonicalize().with_context(|| path.display().to_string())
}

/// Finds the library of the GPU's driver, as [`SHIM`] does.
///
/// # Errors
///
/// There is none; says the files that were tried.
pub(crate) fn driver() -> Result<PathBuf> {
    first(DRIVER, &candidates(DRIVER, std::env::var_os(DRIVER_VARIABLE))).cloned()
}

/// Returns whether a file begins as programs and libraries do.
fn is_library(file: &Path) -> bool {
    let mut begin = [0_u8; ELF.len()];
    let read = reef_files::regular(file).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == ELF
}

fn first<'a>(name: &str, files: &'a [PathBuf]) -> Result<&'a PathBuf> {
    let Some(file) = files.iter().find(|file| file.is_file()) else {
        let tried: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        bail!("no {name} (tried {})", tried.join(", "))
    };
    Ok(file)
}
