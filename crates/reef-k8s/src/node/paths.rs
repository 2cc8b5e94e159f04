//! Files and folders of a node that containers get: the daemon, the library, the driver.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};

/// Paths of a node. The kubelet or the container runtime mounts them into containers.
#[derive(Clone, Debug)]
pub struct Node {
    /// Prefix of `/proc/driver/nvidia` and `/dev` where they are read.
    pub root: PathBuf,
    /// The folder of the daemon's sockets.
    pub daemon: PathBuf,
    /// The library that programs take for the driver.
    pub shim: PathBuf,
    /// The driver's file: the library is mounted in its place. Without it, containers preload the
    /// library.
    pub driver: Option<PathBuf>,
    /// The library that programs with a limit of memory take for the management library. Without
    /// it, NVML and `nvidia-smi` show them the whole device.
    pub nvml: Option<PathBuf>,
    /// A folder of root's with the accounts of all containers. Without it, each container has
    /// accounts of its own.
    pub accounts: Option<PathBuf>,
    /// A file with a token that real-time containers show to the daemon.
    pub token: Option<PathBuf>,
}

impl Node {
    /// Checks whether containers can be given all that they need.
    pub(crate) fn check(&self) -> Result<()> {
        is_there(&self.shim, "--shim", "no library for programs", Path::is_file)?;
        let optional = [
            (&self.driver, "--driver", "no driver", Path::is_file as fn(&Path) -> bool),
            (&self.nvml, "--nvml-shim", "no library for NVML", Path::is_file),
            (&self.accounts, "--accounts", "no folder for accounts", Path::is_dir),
            (&self.token, "--rt-token-file", "no token", Path::is_file),
        ];
        for (path, flag, what, is_it) in optional {
            path.as_ref().map_or(Ok(()), |path| is_there(path, flag, what, is_it))?;
        }
        Ok(())
    }
}

/// Checks whether the path that a flag names can be mounted.
pub(crate) fn is_there(
    path: &Path,
    flag: &str,
    what: &str,
    is_it: fn(&Path) -> bool,
) -> Result<()> {
    let shown = path.display();
    if !path.is_absolute() || path.to_str().is_none() {
        return Err(Error::Refused(format!(
            "{flag} must be an absolute path in UTF-8, got {shown}"
        )));
    }
    if is_it(path) {
        return Ok(());
    }
    Err(Error::Refused(format!("{what} at {shown} ({flag} names another place)")))
}
