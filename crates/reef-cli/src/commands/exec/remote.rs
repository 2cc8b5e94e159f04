//! `reef exec --remote`: the program's GPU is in another machine.

use super::library::{DRIVER, REMOTE, RUNTIME, library};
use super::search;
use crate::report::checks::check_server;
use crate::report::usage::Usage;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::Path;

/// Options of a guest of this machine: a program whose GPU is elsewhere has no daemon and no driver
/// here, and its limits are those of its tenant.
const CONFLICTS: [&str; 19] = [
    "strict",
    "allow_unprotected",
    "job",
    "folder",
    "shim",
    "call_profile",
    "reserve",
    "swappable",
    "bind",
    "nvml",
    "slices",
    "colocate",
    "floor",
    "slo",
    "threads",
    "memory",
    "memory_low",
    "compute",
    "compute_policy",
];

/// Variable that names the runtime's library.
const RUNTIME_VARIABLE: &str = "REEF_CUDART";

/// Options of the connection.
#[derive(clap::Args)]
pub(super) struct Remote {
    /// Run the program on the GPU of a server: HOST:PORT, tls:HOST:PORT or unix:PATH.
    ///
    /// The server is `reef remote serve --programs`. The program's calls of the CUDA driver are
    /// made there. It needs no driver here. A program that is linked with `-cudart shared` gets
    /// REEF's CUDA runtime.
    #[arg(
        long,
        value_name = "ADDRESS",
        conflicts_with_all = CONFLICTS
    )]
    pub(super) remote: Option<String>,
    /// Certificates (PEM) of authorities for tls: addresses of --remote.
    #[arg(long, value_name = "FILE", requires = "remote")]
    remote_ca: Option<std::path::PathBuf>,
}

/// Variables of a program whose GPU is elsewhere.
///
/// # Errors
///
/// The address or a file is wrong, there is no such library here, or the environment asks for a
/// daemon as well.
pub(super) fn variables(
    remote: &Remote,
    address: &str,
    token: Option<&Path>,
) -> Result<Vec<(&'static str, OsString)>> {
    check_server("--remote", address)?; // the program would learn it at its first call
    if std::env::var_os("REEF_GUESTS").is_some_and(|socket| !socket.is_empty()) {
        bail!(Usage("--remote: REEF_GUESTS must not be set: the class is the server's".into()));
    }
    let ours = library(REMOTE, None, "REEF_REMOTE_LIBRARY").context("not run")?;
    let mut set = vec![("NUMBA_CUDA_DRIVER", ours.clone().into()), ("REEF_REMOTE", address.into())];
    // A package without the runtime's library does for programs that do not use the runtime.
    let named = std::env::var_os(RUNTIME_VARIABLE).is_some();
    let runtime = match library(RUNTIME, None, RUNTIME_VARIABLE) {
        Err(why) if named => return Err(why.context("not run")),
        found => found.ok(),
    };
    // Programs that look the driver up by a path of its own are told this one.
    let folder = folder(&ours, runtime.as_deref())?;
    set.push(("LD_PRELOAD", search::preload(&[(DRIVER, &ours)], &folder)?));
    set.push((search::VARIABLE, search::path(&folder)));
    set.push(("TRITON_LIBCUDA_PATH", folder.into()));
    let files = [
        ("REEF_REMOTE_CA", "--remote-ca", remote.remote_ca.as_deref()),
        ("REEF_REMOTE_TOKEN_FILE", "--token-file", token),
    ];
    for (name, option, file) in files {
        if let Some(file) = file {
            let path = file.canonicalize();
            let path = path.map_err(|e| Usage(format!("{option} {}: {e}", file.display())))?;
            set.push((name, path.into()));
        }
    }
    Ok(set)
}

/// Returns a folder in which the libraries have the names that programs search for.
fn folder(driver: &Path, runtime: Option<&Path>) -> Result<std::path::PathBuf> {
    let runtimes = ["libcudart.so.12", "libcudart.so.13"].map(|name| Some((name, runtime?)));
    let drivers = [DRIVER, "libcuda.so"].map(|name| Some((name, driver)));
    let links: Vec<_> = drivers.into_iter().chain(runtimes).flatten().collect();
    search::folder(&links)
}
