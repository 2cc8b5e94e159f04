//! Changes from one scrape of a daemon to the next.

use super::view::{Interval, View};
use crate::remote::daemon::{Daemon, Error};
use crate::remote::scrape::Scrape;
use std::time::{Duration, Instant};

/// Longest time of an answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Scrapes of a daemon, one after the other.
pub(crate) struct Watch {
    pub(crate) daemon: Daemon,
    last: Option<(Instant, Scrape)>,
}

impl Watch {
    pub(crate) fn new(daemon: Daemon) -> Self {
        Self { daemon, last: None }
    }

    /// Changes since the last scrape; `None` if this is the first one.
    ///
    /// # Errors
    ///
    /// The daemon's; after that the next look is the first one.
    pub(crate) fn look(&mut self) -> Result<Option<View>, Error> {
        let before = self.last.take();
        let text = self.daemon.get("/metrics", TIMEOUT)?;
        let (now, after) = (Instant::now(), Scrape::parse(&String::from_utf8_lossy(&text)));
        let view = before.map(|(then, before)| {
            Interval { before: &before, after: &after, time: now - then }.view()
        });
        self.last = Some((now, after));
        Ok(view)
    }
}
