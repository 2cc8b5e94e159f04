//! What is known of the node now.

use crate::node::gpu::{Gpu, look};
use crate::node::paths::Node;

/// GPUs, also those that have gone, and whether there is a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) gpus: Vec<Gpu>,
    /// Without a daemon nobody has a class, so nothing is healthy.
    pub(crate) has_daemon: bool,
}

impl State {
    /// What is there now.
    pub(crate) fn look(node: &Node, before: &Self) -> Self {
        let socket = node.daemon.join("guests.sock");
        // A socket that a killed daemon left refuses.
        let has_daemon = std::os::unix::net::UnixStream::connect(socket).is_ok();
        Self { gpus: look(&node.root, &before.gpus), has_daemon }
    }

    /// In a line, for the log.
    pub(crate) fn line(&self) -> String {
        let there = self.gpus.iter().filter(|gpu| gpu.is_there).count();
        let gone = self.gpus.len() - there;
        let daemon = if self.has_daemon { "a daemon" } else { "no daemon: nothing is healthy" };
        format!("{there} GPUs, {gone} gone, {daemon}")
    }
}
