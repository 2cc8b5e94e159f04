//! What the daemon counts, from its metrics.

use crate::remote::daemon::Daemon;
use crate::remote::scrape::Scrape;
use anyhow::{Context, Result};
use reef::Stats;
use std::path::Path;
use std::time::Duration;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often what happened, since the daemon began.
pub(crate) fn stats(folder: &Path) -> Result<Stats> {
    let text = Daemon::in_folder(Some(folder))?.get("/metrics", TIMEOUT)?;
    let scrape = Scrape::parse(&String::from_utf8_lossy(&text));
    let number = |name| {
        let value = scrape.sum(name, |_| true);
        value.map(|value| value as u64).with_context(|| format!("the daemon's metrics: no {name}"))
    };
    let mut stats = Stats::default();
    stats.preemptions = number("reef_preemptions")?;
    stats.rt_finished = number("reef_rt_finished")?;
    stats.padded_launches = number("reef_padded_launches")?;
    stats.padded_blocks = number("reef_padded_blocks")?;
    stats.retries = number("reef_retries")?;
    Ok(stats)
}
