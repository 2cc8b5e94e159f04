//! What `reef bench pair` measures.

use crate::commands::bench::policy::Choice;
use crate::commands::bench::sides::Sides;
use crate::report::results;
use crate::report::usage::Usage;
use anyhow::Result;

/// Most requests per second: more would be a typing error.
const MAX_RATE: f64 = 100_000.0;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: results::Common,
    #[command(flatten)]
    pub(crate) sides: Sides,
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
    #[command(flatten)]
    pub(crate) choice: Choice,
}

impl Args {
    /// Refuses what can't be measured.
    pub(crate) fn check(&self) -> Result<()> {
        self.sides.check()?;
        self.choice.check()?;
        if let Some(wrong) = self.rates.iter().find(|&&rate| !(rate > 0.0 && rate <= MAX_RATE)) {
            return Err(Usage(format!("--rates must be in 0..={MAX_RATE}, got {wrong}")).into());
        }
        Ok(())
    }
}
