//! Arguments of `reef bench churn`.

use crate::commands::bench::policy::Lengths;
use crate::commands::bench::sides::Sides;
use crate::report::checks::{check_rate, check_repeat};
use crate::report::results;
use anyhow::Result;

/// Most clients and requests per second: more would be a typing error.
const MAX_RATE: f64 = 10_000.0;

/// Last step that a client takes before it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Stay {
    /// Get a queue.
    Register,
    /// Also get memory and kernels for its network.
    Load,
    /// Also run one inference.
    Run,
}

#[derive(clap::Args)]
#[command(
    mut_arg("be", |be| be.default_value("resnet18").help("Network of clients that come and go")),
    mut_arg("time", |time| time.default_value("16s"))
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: results::Common,
    #[command(flatten)]
    pub(crate) sides: Sides,
    /// Real-time requests per second, arriving at random.
    #[arg(long, default_value_t = 200.0)]
    pub(crate) rate: f64,
    /// Clients per second that come and go.
    #[arg(long, default_value_t = 50.0)]
    pub(crate) clients: f64,
    /// Last step of each client; several are measured one after the other.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "run")]
    pub(crate) stay: Vec<Stay>,
    /// Number of measurements of everything.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    pub(crate) repeat: u32,
    #[command(flatten)]
    pub(crate) lengths: Lengths,
}

impl Args {
    /// Refuses what can't be measured.
    pub(super) fn check(&self) -> Result<()> {
        self.sides.check()?;
        self.lengths.check()?;
        check_repeat(self.repeat as usize)?;
        for (name, rate) in [("--rate", self.rate), ("--clients", self.clients)] {
            check_rate(name, rate, MAX_RATE)?;
        }
        Ok(())
    }
}
