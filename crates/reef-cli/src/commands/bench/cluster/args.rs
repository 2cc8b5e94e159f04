//! Arguments of `reef bench cluster`.

use crate::commands::bench::policy::Lengths;
use crate::report::checks::{check_rate, check_repeat, check_time};
use crate::report::results;
use crate::report::time;
use crate::workload::networks::Sizes;
use anyhow::Result;
use std::time::Duration;

/// Most requests per second: more would be a typing error.
const MAX_RATE: f64 = 10_000.0;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// `--device` takes several, such as cuda:* or cpu:0?units=1,cpu:1?units=1.
    #[command(flatten)]
    pub(crate) common: results::Common,
    /// Network of real-time clients, one on each device.
    #[arg(long = "rt-model", value_name = "MODEL", default_value = "resnet50")]
    pub(crate) rt: String,
    /// Network of best-effort clients, one on each device.
    #[arg(long = "be-model", value_name = "MODEL", default_value = "resnet152")]
    pub(crate) be: String,
    /// Real-time requests per second of each client, arriving at random.
    #[arg(long, default_value_t = 100.0)]
    pub(crate) rate: f64,
    /// Time of each measurement, such as 500ms or 5s.
    #[arg(long, value_parser = time::parse, default_value = "5s")]
    pub(crate) time: Duration,
    /// Number of measurements, of one device and of all in turns.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    pub(crate) repeat: u32,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    #[command(flatten)]
    pub(crate) lengths: Lengths,
}

impl Args {
    /// Refuses what can't be measured.
    pub(crate) fn check(&self) -> Result<()> {
        check_time(self.time)?;
        self.lengths.check()?;
        check_rate("--rate", self.rate, MAX_RATE)?;
        Ok(check_repeat(self.repeat as usize)?)
    }
}
