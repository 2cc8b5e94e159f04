//! State of the node: GPUs and daemon.

use crate::node::gpu::{Gpu, poll};
use crate::node::paths::Node;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Longest time for a daemon to accept a connection.
const TIMEOUT: Duration = Duration::from_secs(1);

/// GPUs, also those that have gone, and whether there is a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) gpus: Vec<Gpu>,
    /// Without a daemon no program can have a class, so nothing is healthy.
    pub(crate) has_daemon: bool,
}

impl State {
    /// Reads the current state.
    pub(crate) async fn read(node: &Node, before: &Self) -> Self {
        // A socket that a killed daemon left refuses; a daemon that was stopped accepts no
        // connection.
        let connect = UnixStream::connect(node.daemon.join("guests.sock"));
        let has_daemon = matches!(timeout(TIMEOUT, connect).await, Ok(Ok(_)));
        Self { gpus: poll(&node.root, &before.gpus), has_daemon }
    }

    /// The state in a line, for the log.
    pub(crate) fn line(&self) -> String {
        let there = self.gpus.iter().filter(|gpu| gpu.is_there).count();
        let gone = self.gpus.len() - there;
        let daemon = if self.has_daemon { "a daemon" } else { "no daemon: nothing is healthy" };
        format!("{there} GPUs, {gone} gone, {daemon}")
    }
}
