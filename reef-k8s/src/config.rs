//! What a plugin is told.

use crate::error::{Error, Result};
use crate::resource::{Resource, check_places};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a plugin is told. Paths are the node's: the kubelet mounts them into containers.
#[derive(Clone, Debug)]
pub struct Config {
    /// The kubelet's folder for device plugins, with its `kubelet.sock`.
    pub kubelet: PathBuf,
    /// What stands in front of `/proc/driver/nvidia` and `/dev`, where the plugin reads them.
    pub root: PathBuf,
    /// The folder of the daemon's sockets.
    pub daemon: PathBuf,
    /// The library that programs take for the driver.
    pub shim: PathBuf,
    /// The driver's file: the library is mounted in its place. Without it, containers preload the library.
    pub driver: Option<PathBuf>,
    /// A folder of root's with the books of all containers. Without it, each container has books of its own.
    pub books: Option<PathBuf>,
    /// A file with a token that real-time containers show to the daemon.
    pub token: Option<PathBuf>,
    /// The folder of CDI files: mounts and device nodes are given by name then.
    pub cdi: Option<PathBuf>,
    /// What is offered, one for each class.
    pub resources: Vec<Resource>,
    /// How often it looks.
    pub pace: Pace,
}

/// How often a plugin looks at what it can't be told of.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// At the sockets: whether the kubelet was restarted.
    pub sockets: Duration,
    /// At GPUs and daemon.
    pub health: Duration,
    /// How long a kubelet may leave a resource unwatched before it is told of it again.
    pub unwatched: Duration,
    /// The most time between two tries to register.
    pub retry: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            sockets: Duration::from_secs(1),
            health: Duration::from_secs(5),
            unwatched: Duration::from_secs(15),
            retry: Duration::from_secs(10),
        }
    }
}

impl Config {
    /// Whether a plugin can be started on this node.
    ///
    /// # Errors
    ///
    /// `Refused`, with what is missing or can't be held.
    pub fn check(&self) -> Result<()> {
        self.resources.iter().try_for_each(Resource::check)?;
        check_places(&self.resources)?;
        is_there(
            &self.kubelet,
            "--kubelet",
            "no kubelet's folder for device plugins",
            Path::is_dir,
        )?;
        is_there(&self.shim, "--shim", "no library for programs", Path::is_file)?;
        let optional = [
            (&self.driver, "--driver", "no driver", Path::is_file as fn(&Path) -> bool),
            (&self.books, "--books", "no folder for books", Path::is_dir),
            (&self.token, "--rt-token-file", "no token", Path::is_file),
            (&self.cdi, "--cdi", "no folder for CDI files", Path::is_dir),
        ];
        for (path, flag, what, is_it) in optional {
            path.as_ref().map_or(Ok(()), |path| is_there(path, flag, what, is_it))?;
        }
        Ok(())
    }
}

fn is_there(path: &Path, flag: &str, what: &str, is_it: fn(&Path) -> bool) -> Result<()> {
    let shown = path.display();
    if !path.is_absolute() || path.to_str().is_none() {
        return Err(Error::Refused(format!("{flag} {shown}: an absolute path in UTF-8 is wanted")));
    }
    match is_it(path) {
        true => Ok(()),
        false => Err(Error::Refused(format!("{what} at {shown} ({flag} names another place)"))),
    }
}
