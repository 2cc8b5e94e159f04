//! The registry of guests, for as long as the daemon runs.

use super::beside::Shared;
use super::collector::Collector;
use super::policy::grant;
use crate::config::guests::Guests as Settings;
use crate::engine::api::Engine;
use crate::error::{Error, Result};
use crate::observe::metrics::Metrics;
use reef_guest::registry::Registry;
use std::path::Path;
use std::sync::Arc;

/// Guests register while it lives.
#[derive(Debug)]
pub(crate) struct Guests {
    // Before the registry, whose guest it is.
    _shared: Option<Shared>,
    _registry: Arc<Registry>,
}

impl Guests {
    /// Listens at `guests.sock` in the folder, which no other daemon has. `None`: the configuration says no.
    ///
    /// # Errors
    ///
    /// `Failed`: the socket can't be made, or there is no thread.
    pub(crate) fn start(
        config: &Settings,
        folder: &Path,
        metrics: &Metrics,
        engine: &Arc<dyn Engine>,
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
        let shared = match engine.uuid() {
            Some(device) => Some(Shared::start(engine, &registry, &path, device)?),
            None => {
                tracing::info!(
                    "the device has no UUID: its requests and guests' don't hold each other"
                );
                None
            }
        };
        Ok(Some(Self { _shared: shared, _registry: registry }))
    }
}
