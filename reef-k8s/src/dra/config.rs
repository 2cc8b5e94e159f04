//! Configuration of a plugin for claims.

use crate::config::Pace;
use crate::error::{Error, Result};
use crate::node::paths::{Node, is_there};
use std::path::{Path, PathBuf};

/// The name of the driver, in classes and claims.
pub(crate) const DRIVER: &str = "reef.dev";

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
    /// Device memory of each GPU in bytes, for the scheduler; without it, memory isn't counted.
    pub memory: Option<u64>,
    /// Intervals of its polls.
    pub pace: Pace,
}

impl ClaimsConfig {
    /// Checks whether a plugin can be started on this node.
    ///
    /// # Errors
    ///
    /// `Refused`, with what is missing.
    pub fn check(&self) -> Result<()> {
        let is_name =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        if self.name.is_empty() || self.name.len() > 200 || !self.name.bytes().all(is_name) {
            let line = format!("--node must be the name of a node, got {:?}", self.name);
            return Err(Error::Refused(line));
        }
        is_there(&self.plugins, "--plugins", "no kubelet's folder for plugins", Path::is_dir)?;
        let registry = "no kubelet's folder for plugins' sockets";
        is_there(&self.registry, "--registry", registry, Path::is_dir)?;
        is_there(&self.cdi, "--cdi", "no folder for CDI files", Path::is_dir)?;
        self.node.check()
    }

    /// The plugin's own folder.
    pub(crate) fn home(&self) -> PathBuf {
        self.plugins.join(DRIVER)
    }
}
