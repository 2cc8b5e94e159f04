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
    Ok(Stats {
        preemptions: number("reef_preemptions")?,
        rt_finished: number("reef_rt_finished")?,
        padded_launches: number("reef_padded_launches")?,
        padded_blocks: number("reef_padded_blocks")?,
        ..Stats::default()
    })
}

/// How often since `before`.
pub(crate) fn since(before: Stats, now: Stats) -> Stats {
    Stats {
        preemptions: now.preemptions.saturating_sub(before.preemptions),
        rt_finished: now.rt_finished.saturating_sub(before.rt_finished),
        padded_launches: now.padded_launches.saturating_sub(before.padded_launches),
        padded_blocks: now.padded_blocks.saturating_sub(before.padded_blocks),
        retries: now.retries.saturating_sub(before.retries),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_happened_since_counts() {
        let stats = |n: u64| Stats {
            preemptions: n,
            rt_finished: 2 * n,
            padded_launches: 3 * n,
            padded_blocks: 4 * n,
            retries: 5 * n,
        };
        assert_eq!(since(stats(5), stats(7)), stats(2));
        assert_eq!(since(stats(5), stats(1)), stats(0), "that is another daemon");
    }
}
