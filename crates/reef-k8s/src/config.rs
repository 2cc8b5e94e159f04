//! Configuration of a device plugin.

use crate::error::Result;
use crate::node::paths::{Node, is_there};
use crate::resource::{Resource, check_places};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Configuration of a device plugin.
#[derive(Clone, Debug)]
pub struct Config {
    /// Paths of the node.
    pub node: Node,
    /// The kubelet's folder for device plugins, with its `kubelet.sock`.
    pub kubelet: PathBuf,
    /// The folder of CDI files: mounts and device nodes are given by name then.
    pub cdi: Option<PathBuf>,
    /// Resources to offer, one for each class.
    pub resources: Vec<Resource>,
    /// Intervals of its polls.
    pub pace: Pace,
}

/// Intervals at which a plugin polls for changes that nothing notifies it of.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Interval of polls of the sockets, which tell whether the kubelet was restarted.
    pub sockets: Duration,
    /// Interval of polls of GPUs and daemon.
    pub health: Duration,
    /// Longest time that a kubelet may leave a resource unwatched before it is registered again.
    pub unwatched: Duration,
    /// The most time between two tries to register.
    pub retry: Duration,
    /// Interval of polls of a ResourceSlice that should be as it was left.
    pub slices: Duration,
    /// Shortest time between two changes of the memory that suspended programs give back.
    pub given_back: Duration,
    /// Longest time for which memory is given back by the last answer of a daemon that gives none.
    pub silence: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            sockets: Duration::from_secs(1),
            health: Duration::from_secs(5),
            unwatched: Duration::from_secs(15),
            retry: Duration::from_secs(10),
            slices: Duration::from_secs(60),
            given_back: Duration::from_secs(10),
            silence: Duration::from_secs(30),
        }
    }
}

impl Config {
    /// Checks whether a plugin can be started on this node.
    ///
    /// # Errors
    ///
    /// `Refused`, with what is missing or can't be held.
    pub fn check(&self) -> Result<()> {
        self.resources.iter().try_for_each(Resource::check)?;
        check_places(&self.resources)?;
        let folder = "no kubelet's folder for device plugins";
        is_there(&self.kubelet, "--kubelet", folder, Path::is_dir)?;
        self.node.check()?;
        let cdi = self.cdi.as_ref();
        cdi.map_or(Ok(()), |path| is_there(path, "--cdi", "no folder for CDI files", Path::is_dir))
    }
}
