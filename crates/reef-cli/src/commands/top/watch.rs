//! Changes from one scrape of a daemon to the next.

use super::sessions::{name_clients, sessions};
use super::view::{Interval, View};
use crate::remote::daemon::{Daemon, Error};
use crate::remote::scrape::Scrape;
use crate::remote::servers::{Server, servers};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longest time of an answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Scrapes of a daemon, one after the other.
pub(crate) struct Watch {
    pub(crate) daemon: Daemon,
    /// Folder of the control sockets of servers; `None`: only a daemon is watched.
    folder: Option<Option<PathBuf>>,
    last: Option<(Instant, Scrape, Vec<Server>)>,
}

impl Watch {
    pub(crate) fn new(daemon: Daemon, folder: Option<Option<PathBuf>>) -> Self {
        Self { daemon, folder, last: None }
    }

    /// Changes since the last scrape; `None` if this is the first one.
    ///
    /// # Errors
    ///
    /// The daemon's, unless it is gone and there are servers; after that the next poll is the first
    /// one.
    pub(crate) fn poll(&mut self) -> Result<Option<View>, Error> {
        let before = self.last.take();
        let servers = self.folder.as_ref().map(|folder| servers(folder.as_deref()));
        let servers = servers.unwrap_or_default();
        let after = match self.daemon.get("/metrics", TIMEOUT) {
            Ok(text) => Scrape::parse(&String::from_utf8_lossy(&text)),
            Err(error) if error.is_gone() && !servers.is_empty() => Scrape::default(),
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        let view = before.map(|(then, before, old)| {
            let interval = Interval { before: &before, after: &after, time: now - then };
            let mut view = interval.view();
            view.sessions = sessions(&old, &servers, now - then);
            name_clients(&mut view.guests, &view.sessions);
            view
        });
        self.last = Some((now, after, servers));
        Ok(view)
    }
}
