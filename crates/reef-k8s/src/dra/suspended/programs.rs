//! Suspended programs, as the driver polls them.

use super::answer;
use super::spare::{PacedMemory, SpareMemory};
use crate::dra::checkpoint::Checkpoint;
use crate::dra::config::{ClaimsConfig, SuspendedMemory};
use crate::node::daemon;
use std::sync::Arc;
use tokio::time::Instant;

/// Follower of the daemon's list.
pub(in crate::dra) struct SuspendedPrograms {
    config: Arc<ClaimsConfig>,
    paced: PacedMemory,
    /// The last line of the log, so that it isn't said each time.
    said: Option<String>,
}

impl SuspendedPrograms {
    pub(in crate::dra) fn new(config: Arc<ClaimsConfig>) -> Self {
        let paced = PacedMemory::new(config.pace.given_back, config.pace.silence);
        Self { config, paced, said: None }
    }

    /// Asks the daemon, and returns what is given back now.
    pub(in crate::dra) async fn poll(&mut self) -> &SpareMemory {
        if self.config.suspended != SuspendedMemory::Count {
            let (found, line) = match self.ask().await {
                Ok((found, odd)) => (Some(found), odd),
                Err(why) => (None, Some(why)),
            };
            if let Some(line) = line.as_ref().filter(|line| self.said.as_ref() != Some(line)) {
                tracing::warn!("memory of suspended programs: {line}");
            }
            self.said = line;
            if self.paced.update(found, Instant::now()) {
                let sum = self.paced.now().values().fold(0, |sum: u64, it| sum.saturating_add(*it));
                tracing::info!("suspended programs give {} MiB back", sum >> 20);
            }
        }
        self.paced.now()
    }

    /// Returns the memory that is given back, and a line on a part of the answer that can't be.
    async fn ask(&self) -> Result<(SpareMemory, Option<String>), String> {
        let text = daemon::get(&self.config.node.daemon, "/reef/suspended").await?;
        let checkpoint =
            Checkpoint::open(&self.config.home()).map_err(|error| error.to_string())?;
        answer::given_back(&text, &checkpoint.claims, &self.config)
    }
}
