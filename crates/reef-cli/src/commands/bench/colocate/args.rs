//! Arguments of `reef bench colocate`.

use crate::commands::bench::policy::Choice;
use crate::commands::bench::sides::Sides;
use crate::report::checks::check_rate;
use crate::report::usage::Usage;
use crate::report::{results, size};
use anyhow::Result;

/// Most requests per second: more would be a typing error.
const MAX_RATE: f64 = 100_000.0;

/// Most memory to fill.
const MAX_COLD: u64 = 64 << 30;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: results::Common,
    #[command(flatten)]
    pub(crate) sides: Sides,
    /// Real-time requests per second, arriving at random.
    #[arg(long, value_delimiter = ',', default_value = "100,400")]
    pub(crate) rates: Vec<f64>,
    /// Also measure a closed loop: each request as soon as the last one has finished.
    #[arg(long)]
    pub(crate) closed: bool,
    /// Also measure real-time requests alone, with this much memory filled before each, such as
    /// 64MiB: the cost of caches that others have used.
    #[arg(long, value_name = "SIZE", requires = "closed", value_parser = size::parse)]
    pub(crate) cold: Option<u64>,
    #[command(flatten)]
    pub(crate) choice: Choice,
}

impl Args {
    /// Refuses what can't be measured.
    pub(super) fn check(&self) -> Result<()> {
        self.sides.check()?;
        self.choice.check()?;
        if let Some(cold) = self.cold.filter(|cold| !(1 << 20..=MAX_COLD).contains(cold)) {
            return Err(
                Usage(format!("--cold must be from 1MiB to 64GiB, got {cold} bytes")).into()
            );
        }
        self.rates.iter().try_for_each(|&rate| Ok(check_rate("--rates", rate, MAX_RATE)?))
    }
}
