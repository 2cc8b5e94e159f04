//! What the daemon counts, from its metrics.

use crate::daemon::Daemon;
use crate::scrape::Scrape;
use anyhow::{Context, Result};
use reef::Stats;
use std::path::Path;
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often what happened, since the daemon began.
pub(super) fn stats(folder: &Path) -> Result<Stats> {
    let text = Daemon::in_folder(Some(folder))?.get("/metrics", PATIENCE)?;
    let scrape = Scrape::parse(&String::from_utf8_lossy(&text));
    let number = |name| {
        let value = scrape.sum(name, |_| true);
        value.map(|value| value as u64).with_context(|| format!("the daemon's metrics: no {name}"))
    };
    Ok(Stats {
        preemptions: number("reef_preemptions")?,
        rt_finished: number("reef_rt_finished")?,
        padded_launches: number("reef_padded_launches")?,
        padded_blocks: number("reef_padded_blocks")?,
    })
}

/// How often since `before`.
pub(super) fn since(before: Stats, now: Stats) -> Stats {
    Stats {
        preemptions: now.preemptions.saturating_sub(before.preemptions),
        rt_finished: now.rt_finished.saturating_sub(before.rt_finished),
        padded_launches: now.padded_launches.saturating_sub(before.padded_launches),
        padded_blocks: now.padded_blocks.saturating_sub(before.padded_blocks),
    }
}
