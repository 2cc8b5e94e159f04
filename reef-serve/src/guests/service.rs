//! The registry of guests, for as long as the daemon runs.

use super::collector::Collector;
use super::policy::grant;
use crate::config::guests::Guests as Settings;
use crate::error::{Error, Result};
use crate::observe::metrics::Metrics;
use reef_guest::registry::Registry;
use std::path::Path;
use std::sync::Arc;

/// Guests register while it lives.
#[derive(Debug)]
pub(crate) struct Guests(#[allow(dead_code)] Arc<Registry>);

impl Guests {
    /// Listens at `guests.sock` in the folder, which no other daemon has. `None`: the configuration says no.
    ///
    /// # Errors
    ///
    /// `Failed`: the socket can't be made.
    pub(crate) fn start(
        config: &Settings,
        folder: &Path,
        metrics: &Metrics,
    ) -> Result<Option<Self>> {
        if !config.listen {
            return Ok(None);
        }
        let path = folder.join("guests.sock");
        let _ = std::fs::remove_file(&path); // of a daemon that was killed
        let (config, own) = (config.clone(), rustix::process::getuid().as_raw());
        let policy = Box::new(move |caller: &_, wish: &_| grant(&config, own, caller, wish));
        let registry =
            Registry::open(&path, policy).map_err(|e| Error::system("guests.sock", e))?;
        let registry = Arc::new(registry);
        metrics.add(Box::new(Collector(Arc::downgrade(&registry))));
        Ok(Some(Self(registry)))
    }
}
