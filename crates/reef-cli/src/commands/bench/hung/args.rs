//! Arguments of `reef bench hung`.

use crate::report::checks::{check_count, check_repeat, check_time};
use crate::report::results;
use crate::report::time;
use crate::report::usage::Usage;
use anyhow::Result;
use std::time::Duration;

/// Longest block, real-time task and pause: more would be a typing error.
const MAX_STEP: Duration = Duration::from_secs(1);
/// Most clients: likewise.
const MAX_CLIENTS: usize = 64;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: results::Common,
    /// Number of best-effort clients next to the one whose kernel does not end.
    #[arg(long, default_value_t = 3)]
    pub(crate) clients: usize,
    /// Time of one of their blocks.
    #[arg(long, value_parser = time::parse, default_value = "50us")]
    pub(crate) block: Duration,
    /// Time of a real-time task.
    #[arg(long, value_parser = time::parse, default_value = "200us")]
    pub(crate) task: Duration,
    /// Time between the end of a real-time task and the next one.
    #[arg(long, value_parser = time::parse, default_value = "5ms")]
    pub(crate) pause: Duration,
    /// Time after which the client whose kernel does not end gets an error.
    #[arg(long, value_parser = time::parse, default_value = "3s")]
    pub(crate) timeout: Duration,
    /// Time of each measurement, such as 500ms or 5s.
    #[arg(long, value_parser = time::parse, default_value = "6s")]
    pub(crate) time: Duration,
    /// Number of measurements of everything.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    pub(crate) repeat: u32,
}

impl Args {
    /// Refuses what can't be measured.
    pub(super) fn check(&self) -> Result<()> {
        check_time(self.time)?;
        check_repeat(self.repeat as usize)?;
        for (option, time) in
            [("--block", self.block), ("--task", self.task), ("--pause", self.pause)]
        {
            time::check(option, time, MAX_STEP)?;
        }
        if self.timeout.is_zero() || self.timeout >= self.time {
            let (timeout, time) = (time::show(self.timeout), time::show(self.time));
            let range = format!("greater than 0 and shorter than {time}");
            return Err(Usage(format!("--timeout must be {range}, got {timeout}")).into());
        }
        Ok(check_count("--clients", self.clients, MAX_CLIENTS)?)
    }
}
