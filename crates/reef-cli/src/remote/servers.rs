//! Servers of devices for other machines (`reef remote serve`), by their control sockets.

use super::daemon::{Daemon, Error};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// Name of a server's control socket: this, the number of its process, and the suffix.
pub(crate) const PREFIX: &str = "remote-";
pub(crate) const SUFFIX: &str = ".sock";
/// Longest time of an answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A server, and its sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Server {
    /// Number of its process.
    pub(crate) pid: u32,
    /// Addresses for clients.
    pub(crate) listening: Vec<String>,
    pub(crate) sessions: Vec<Session>,
}

/// A session of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Session {
    /// Number in its server.
    pub(crate) id: u64,
    pub(crate) age_seconds: f64,
    /// `program`, `shared` or `own`.
    pub(crate) kind: String,
    pub(crate) tenant: Option<String>,
    /// Program, as its client names it.
    pub(crate) program: String,
    pub(crate) device: Option<String>,
    /// Process of the session on this machine.
    pub(crate) pid: Option<u32>,
    pub(crate) class: Option<String>,
    /// The client's end: `HOST:PORT`, or `pid NUMBER` of this machine.
    pub(crate) peer: String,
    pub(crate) memory_bytes: u64,
    pub(crate) is_connected: bool,
    pub(crate) connections: u64,
    pub(crate) received_frames: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_frames: u64,
    pub(crate) sent_bytes: u64,
    /// Round trips of the client.
    pub(crate) replies: u64,
    pub(crate) single_calls: Option<u64>,
    pub(crate) replayed_calls: Option<u64>,
}

impl Session {
    pub(crate) fn state(&self) -> &'static str {
        if self.is_connected { "connected" } else { "waiting" }
    }

    /// Part of its calls that came in records; `None`: none came.
    pub(crate) fn replayed_part(&self) -> Option<f64> {
        let (single, replayed) = (self.single_calls?, self.replayed_calls?);
        (replayed > 0).then(|| replayed as f64 / (single as f64 + replayed as f64))
    }

    /// The program and its machine, for a person.
    pub(crate) fn client(&self) -> String {
        format!("{} @ {}", self.program, self.peer)
    }
}

/// Finds a session by the process of its server and its number there.
pub(crate) fn find(all: &[Server], pid: u32, id: u64) -> Option<&Session> {
    let server = all.iter().find(|server| server.pid == pid)?;
    server.sessions.iter().find(|session| session.id == id)
}

/// Name of the control socket of a server.
pub(crate) fn socket(pid: u32) -> String {
    format!("{PREFIX}{pid}{SUFFIX}")
}

/// Returns all servers of this user that answer, of those whose sockets are in a folder, or in the
/// user's own.
pub(crate) fn servers(folder: Option<&Path>) -> Vec<Server> {
    ask_all(folder).0
}

/// Returns what [`servers`] does, and the process of each server that does not answer, with the
/// reason. A socket at which nothing listens is that of a server that has ended.
pub(crate) fn ask_all(folder: Option<&Path>) -> (Vec<Server>, Vec<(u32, String)>) {
    let files = std::fs::read_dir(reef_serve::folder(folder)).into_iter().flatten().flatten();
    let pid = |name: &str| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse::<u32>().ok();
    let mut pids: Vec<u32> = files.filter_map(|file| pid(file.file_name().to_str()?)).collect();
    pids.sort_unstable();
    let (mut servers, mut silent) = (Vec::new(), Vec::new());
    for pid in pids {
        match ask(folder, pid) {
            Ok(server) => servers.extend(server),
            Err(error) => silent.push((pid, format!("{error:#}"))),
        }
    }
    (servers, silent)
}

/// Asks one server. `None`: it has ended.
fn ask(folder: Option<&Path>, pid: u32) -> Result<Option<Server>> {
    let daemon = Daemon::at_socket(folder, &socket(pid))?;
    match daemon.get("/sessions", TIMEOUT) {
        Ok(text) => serde_json::from_slice(&text).map(Some).with_context(|| daemon.name()),
        Err(Error::Absent(..)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
