//! NVIDIA's compilers, from the wheels that they publish. Fetched once, then kept in target/.

use crate::error::Result;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Version of the compilers, and their folder's name, so that another version is fetched anew.
pub(crate) const VERSION: &str = "11.8.89";
/// The assembler for `sm_90a`, whose instructions 11.8 does not have.
pub(crate) const OWN_VERSION: &str = "12.9.86";
const PTXAS: &str = "nvidia/cuda_nvcc/bin/ptxas";
const PLATFORM: &str = "manylinux2014_x86_64";

/// Paths of the compilers.
pub(crate) struct Toolchain {
    pub(crate) nvrtc: PathBuf,
    pub(crate) ptxas: PathBuf,
    /// Assembler for devices of one capability alone.
    pub(crate) own_ptxas: PathBuf,
}

impl Toolchain {
    /// The compilers in this folder, fetched if they are not there yet.
    pub(crate) fn get(folder: &Path) -> Result<Self> {
        if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
            return Err("NVIDIA's compilers run on Linux on x86-64 only".into());
        }
        let (compilers, own) = (installed(folder, VERSION)?, installed(folder, OWN_VERSION)?);
        Ok(Self {
            nvrtc: compilers.join("nvidia/cuda_nvrtc/lib/libnvrtc.so.11.2"),
            ptxas: compilers.join(PTXAS),
            own_ptxas: own.join(PTXAS),
        })
    }
}

/// The folder of this version, fetched if it is not there yet.
fn installed(folder: &Path, version: &str) -> Result<PathBuf> {
    let installed = folder.join(version);
    if !installed.exists() {
        fetch(folder, version, &installed)?;
    }
    Ok(installed.canonicalize()?)
}

/// The folder appears whole, by renaming, so that an interrupted fetch is made again.
fn fetch(folder: &Path, version: &str, installed: &Path) -> Result<()> {
    println!("fetching NVIDIA's compilers {version} to {}", installed.display());
    let partial = folder.join(format!("{version}.{}", std::process::id()));
    let fetched = unpack(&partial, version).and_then(|()| Ok(fs::rename(&partial, installed)?));
    if fetched.is_err() {
        let _ = fs::remove_dir_all(partial); // which may not even be there
    }
    fetched
}

fn unpack(folder: &Path, version: &str) -> Result<()> {
    let wheels = folder.join("wheels");
    download(&wheels, version)?;
    for wheel in fs::read_dir(&wheels)? {
        let unzip = ["-m", "zipfile", "-e"];
        run(Command::new("python3").args(unzip).arg(wheel?.path()).arg(folder))?;
    }
    // Which zipfile doesn't keep.
    fs::set_permissions(folder.join(PTXAS), Permissions::from_mode(0o755))?;
    Ok(fs::remove_dir_all(wheels)?)
}

/// Only what has the hashes of `toolchain/VERSION.txt`.
fn download(wheels: &Path, version: &str) -> Result<()> {
    let list = format!("{}/toolchain/{version}.txt", env!("CARGO_MANIFEST_DIR"));
    let pip = "-m pip download --quiet --disable-pip-version-check --retries 1 --no-deps \
               --only-binary=:all: --require-hashes --platform";
    run(Command::new("python3")
        .args(pip.split_whitespace())
        .args([PLATFORM, "--requirement", &list, "--dest"])
        .arg(wheels))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("python3: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{status}: {command:?}").into()) }
}
