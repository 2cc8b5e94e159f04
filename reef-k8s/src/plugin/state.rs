//! What is known of the node now.

use crate::gpu::Gpu;
use std::path::Path;

/// GPUs, also those that have gone, and whether there is a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) gpus: Vec<Gpu>,
    /// Without a daemon nobody has a class, so nothing is healthy.
    pub(super) has_daemon: bool,
}

impl State {
    /// What is there now.
    pub(super) fn look(root: &Path, daemon: &Path, before: &Self) -> Self {
        let socket = daemon.join("guests.sock");
        // A socket that a killed daemon left refuses.
        let has_daemon = std::os::unix::net::UnixStream::connect(socket).is_ok();
        Self { gpus: crate::gpu::look(root, &before.gpus), has_daemon }
    }

    /// In a line, for the log.
    pub(super) fn line(&self) -> String {
        let there = self.gpus.iter().filter(|gpu| gpu.is_there).count();
        let gone = self.gpus.len() - there;
        let daemon = if self.has_daemon { "a daemon" } else { "no daemon: nothing is healthy" };
        format!("{there} GPUs, {gone} gone, {daemon}")
    }
}
