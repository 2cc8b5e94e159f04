//! Arguments of `reef bench start`.

use crate::commands::bench::policy::{Choice, check_windows};
use crate::report::checks::{check_count, check_repeat, check_time};
use crate::report::results;
use crate::report::time;
use crate::report::usage::Usage;
use crate::workload::networks::Sizes;
use anyhow::Result;
use std::time::Duration;

/// Longest block: a minute would be a typing error.
const MAX_BLOCK: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: results::Common,
    /// Number of real-time kernels for each row, in each round.
    #[arg(long, default_value_t = 1000)]
    pub(crate) samples: usize,
    /// Longest time of each row, which then has fewer samples.
    #[arg(long, value_parser = time::parse, default_value = "10s")]
    pub(crate) time: Duration,
    /// Mean time between the end of a real-time kernel and the next one.
    #[arg(long, value_parser = time::parse, default_value = "2ms")]
    pub(crate) pause: Duration,
    /// Poll the clock in these pauses instead of sleeping, which keeps the thread warm and uses a
    /// core.
    #[arg(long)]
    pub(crate) awake: bool,
    /// Number of turns in which all rows are measured; samples of a row are put together.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(crate) repeat: usize,
    /// Best-effort network in a closed loop; `none` for none.
    #[arg(long = "be-model", value_name = "MODEL", default_value = "resnet152")]
    pub(crate) be: String,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    /// Best-effort kernels with blocks of these times; `none` for none.
    #[arg(long, value_delimiter = ',', default_value = "20us,100us,1ms,10ms")]
    pub(crate) blocks: Vec<String>,
    /// Numbers of them that are queued on the hardware.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64")]
    pub(crate) queued: Vec<u64>,
    #[command(flatten)]
    pub(crate) choice: Choice,
}

impl Args {
    /// The best-effort network, if there is one.
    pub(crate) fn network(&self) -> Option<&String> {
        (self.be != "none").then_some(&self.be)
    }

    /// Times of blocks, as asked.
    pub(crate) fn blocks(&self) -> Result<Vec<Duration>, Usage> {
        let asked: Vec<_> = self.blocks.iter().filter(|text| *text != "none").collect();
        let read = |text: &&String| {
            let time = time::parse(text).map_err(|why| Usage(format!("--blocks: {why}")))?;
            if time <= MAX_BLOCK {
                return Ok(time);
            }
            Err(Usage(format!("--blocks must be at most {}, got {text}", time::show(MAX_BLOCK))))
        };
        let blocks = asked.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if blocks.is_empty() && self.network().is_none() {
            return Err(Usage("nothing to measure: --be-model none and --blocks none".into()));
        }
        Ok(blocks)
    }

    /// Refuses what can't be measured.
    pub(crate) fn check(&self) -> Result<()> {
        check_time(self.time)?;
        check_count("--samples", self.samples, 1_000_000)?;
        check_repeat(self.repeat)?;
        check_windows("--queued", &self.queued)?;
        self.choice.check()?;
        Ok(())
    }
}
