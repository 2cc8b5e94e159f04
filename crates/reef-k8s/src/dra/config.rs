//! Configuration of a plugin for claims.

use crate::config::Pace;
use crate::error::{Error, Result};
use crate::node::dmem;
use crate::node::paths::{Node, is_there};
use std::path::{Path, PathBuf};

/// The name of the driver, in classes and claims.
pub(crate) const DRIVER: &str = "reef.dev";

/// Use of the memory that a claim's suspended programs had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SuspendedMemory {
    /// It stays counted, as if they were on the GPU.
    #[default]
    Count,
    /// Other claims may have it until they return. Programs that the daemon has suspended for a
    /// real-time program's memory stay counted: that program has the room.
    GiveBack,
    /// Other claims may have it, whatever suspended them.
    GiveBackAll,
}

/// Configuration of a plugin for claims.
#[derive(Clone, Debug)]
pub struct ClaimsConfig {
    /// Paths of the node.
    pub node: Node,
    /// Name of the node in Kubernetes.
    pub name: String,
    /// The kubelet's folder for plugins' own files; the plugin has a folder of its own in it.
    pub plugins: PathBuf,
    /// The folder in which the kubelet looks for plugins.
    pub registry: PathBuf,
    /// The folder of CDI files.
    pub cdi: PathBuf,
    /// The command `reef` on the node, which the container runtime runs to set the kernel's limit
    /// of a container's memory. Without it, the library alone keeps that limit.
    pub dmem_hook: Option<PathBuf>,
    /// Device memory of each GPU in bytes, for the scheduler; without it, memory isn't counted.
    pub memory: Option<u64>,
    /// Use of the memory of suspended programs.
    pub suspended: SuspendedMemory,
    /// Intervals of its polls.
    pub pace: Pace,
}

impl ClaimsConfig {
    /// Checks whether a plugin can be started on this node.
    ///
    /// # Errors
    ///
    /// `Refused`, with what is missing or needs another option.
    pub fn check(&self) -> Result<()> {
        self.check_paths()?;
        self.dmem_hook.as_ref().map_or(Ok(()), |_| dmem::check("--dmem-hook"))
    }

    /// Checks names and paths: all but the kernel.
    pub(super) fn check_paths(&self) -> Result<()> {
        let is_name =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        if self.name.is_empty() || self.name.len() > 200 || !self.name.bytes().all(is_name) {
            let line = format!("--node must be the name of a node, got {:?}", self.name);
            return Err(Error::Refused(line));
        }
        if self.suspended != SuspendedMemory::Count && self.memory.is_none() {
            let line = "--suspended-memory needs --gpu-memory: memory isn't counted without it";
            return Err(Error::Refused(line.into()));
        }
        is_there(&self.plugins, "--plugins", "no kubelet's folder for plugins", Path::is_dir)?;
        let registry = "no kubelet's folder for plugins' sockets";
        is_there(&self.registry, "--registry", registry, Path::is_dir)?;
        is_there(&self.cdi, "--cdi", "no folder for CDI files", Path::is_dir)?;
        if let Some(command) = &self.dmem_hook {
            is_there(command, "--dmem-hook", "no command reef", Path::is_file)?;
        }
        self.node.check()
    }

    /// The plugin's own folder.
    pub(crate) fn home(&self) -> PathBuf {
        self.plugins.join(DRIVER)
    }
}
