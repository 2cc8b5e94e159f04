//! What `reef bench cluster` measures.

use crate::commands::bench::policy::Lengths;
use crate::report::checks::check_seconds;
use crate::report::results;
use crate::report::usage::Usage;
use anyhow::Result;

/// Most requests per second: more would be a typing error.
const MAX_RATE: f64 = 10_000.0;
/// Most measurements of each: more would be a typing error.
const MAX_RUNS: u32 = 1_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// `--device` takes several, such as cuda:* or cpu:0?units=1,cpu:1?units=1.
    #[command(flatten)]
    pub(crate) common: results::Common,
    /// The network of real-time clients, one on each device.
    #[arg(long, default_value = "resnet50")]
    pub(crate) rt: String,
    /// The network of best-effort clients, one on each device.
    #[arg(long, default_value = "resnet152")]
    pub(crate) be: String,
    /// Real-time requests per second of each client, arriving at random.
    #[arg(long, default_value_t = 100.0)]
    pub(crate) rate: f64,
    /// Seconds for each measurement.
    #[arg(long, default_value_t = 5.0)]
    pub(crate) seconds: f64,
    /// How often all is measured, one device and all of them in turns.
    #[arg(long, default_value_t = 3)]
    pub(crate) runs: u32,
    /// Rows and columns of all pictures, instead of the networks' own.
    #[arg(long)]
    pub(crate) size: Option<usize>,
    #[command(flatten)]
    pub(crate) lengths: Lengths,
}

impl Args {
    /// Refuses what can't be measured.
    pub(crate) fn check(&self) -> Result<()> {
        check_seconds(self.seconds)?;
        self.lengths.check()?;
        if !(self.rate > 0.0 && self.rate <= MAX_RATE) {
            let text = format!("--rate must be in 0..={MAX_RATE}, got {}", self.rate);
            return Err(Usage(text).into());
        }
        if !(1..=MAX_RUNS).contains(&self.runs) {
            return Err(
                Usage(format!("--runs must be in 1..={MAX_RUNS}, got {}", self.runs)).into()
            );
        }
        Ok(())
    }
}
