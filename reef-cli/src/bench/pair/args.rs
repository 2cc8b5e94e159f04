//! What `reef bench pair` measures.

use crate::bench::policy::Choice;
use crate::report::checks::check_seconds;
use crate::report::results;
use crate::report::usage::Usage;
use anyhow::Result;

/// Most requests per second: more would be a typing error.
const MAX_RATE: f64 = 100_000.0;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: results::Common,
    /// The real-time client's network.
    #[arg(long, default_value = "resnet50")]
    pub(crate) rt: String,
    /// The best-effort client's network.
    #[arg(long, default_value = "resnet152")]
    pub(crate) be: String,
    /// Real-time requests per second, arriving at random.
    #[arg(long, value_delimiter = ',', default_value = "100,400")]
    pub(crate) rates: Vec<f64>,
    /// Also the next real-time request as soon as one has finished.
    #[arg(long)]
    pub(crate) closed: bool,
    /// Also real-time requests alone, this many MiB of memory filled before each: what it costs that others
    /// have used the caches, whatever the scheduler does.
    #[arg(long, value_name = "MIB", requires = "closed", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) cold: Option<u32>,
    /// Seconds for each measurement.
    #[arg(long, default_value_t = 5.0)]
    pub(crate) seconds: f64,
    /// Rows and columns of all pictures, instead of the networks' own.
    #[arg(long)]
    pub(crate) size: Option<usize>,
    #[command(flatten)]
    pub(crate) choice: Choice,
}

impl Args {
    /// Refuses what can't be measured.
    pub(crate) fn check(&self) -> Result<()> {
        check_seconds(self.seconds)?;
        self.choice.check()?;
        if let Some(wrong) = self.rates.iter().find(|&&rate| !(rate > 0.0 && rate <= MAX_RATE)) {
            return Err(Usage(format!("--rates must be in 0..={MAX_RATE}, got {wrong}")).into());
        }
        Ok(())
    }
}
