//! Arguments of `reef bench launch`.

use crate::commands::bench::policy::check_windows;
use crate::report::checks::{check_count, check_time};
use crate::report::results;
use crate::report::time;
use anyhow::Result;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: results::Common,
    /// Number of bursts, and of single commands, for each row.
    #[arg(long, default_value_t = 1000)]
    pub(crate) samples: usize,
    /// Longest time of each row, which then has fewer samples.
    #[arg(long, value_parser = time::parse, default_value = "2s")]
    pub(crate) time: Duration,
    /// Number of commands in a burst.
    #[arg(long, default_value_t = 256)]
    pub(crate) burst: u64,
    /// Hardware queue lengths of virtual queues.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,64")]
    pub(crate) windows: Vec<u64>,
}

impl Args {
    /// Refuses what can't be measured.
    pub(super) fn check(&self) -> Result<()> {
        check_time(self.time)?;
        check_count("--samples", self.samples, 1_000_000)?;
        check_windows("--burst", &[self.burst])?;
        check_windows("--windows", &self.windows)?;
        Ok(())
    }
}
