//! The two networks of a bench: a real-time one, and one that runs beside it.

use crate::report::checks::check_seconds;
use crate::workload::networks::{self, Picture};
use anyhow::Result;
use std::time::Duration;

/// Options of benches with one network on each side.
#[derive(clap::Args)]
pub(crate) struct Sides {
    /// The real-time client's network.
    #[arg(long, default_value = "resnet50")]
    pub(crate) rt: String,
    /// The best-effort client's network.
    #[arg(long, default_value = "resnet152")]
    pub(crate) be: String,
    /// Seconds for each measurement.
    #[arg(long, default_value_t = 5.0)]
    pub(crate) seconds: f64,
    /// Rows and columns of all pictures, instead of the networks' own.
    #[arg(long)]
    pub(crate) size: Option<usize>,
}

impl Sides {
    /// Refuses what can't be measured: times, and networks that can't be built.
    pub(crate) fn check(&self) -> Result<()> {
        check_seconds(self.seconds)?;
        networks::check(&self.rt, self.best_effort(), self.picture())
    }

    /// Of one measurement.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// As a list, which workloads with several networks have.
    pub(crate) fn best_effort(&self) -> &[String] {
        std::slice::from_ref(&self.be)
    }

    pub(crate) fn picture(&self) -> Picture<'static> {
        Picture { file: None, size: self.size }
    }
}
