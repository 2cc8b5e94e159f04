//! The two networks of a bench: a real-time one and a best-effort one.

use crate::report::checks::check_time;
use crate::report::time;
use crate::workload::networks::{self, Image, Sizes};
use anyhow::Result;
use std::time::Duration;

/// Options of benches with one network on each side.
#[derive(clap::Args)]
pub(crate) struct Sides {
    /// Network of the real-time client.
    #[arg(long = "rt-model", value_name = "MODEL", default_value = "resnet50")]
    pub(crate) rt: String,
    /// Network of the best-effort client.
    #[arg(long = "be-model", value_name = "MODEL", default_value = "resnet152")]
    pub(crate) be: String,
    /// Time of each measurement, such as 500ms or 5s.
    #[arg(long, value_parser = time::parse, default_value = "5s")]
    pub(crate) time: Duration,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
}

impl Sides {
    /// Refuses what can't be measured: times, and networks that can't be built.
    pub(crate) fn check(&self) -> Result<()> {
        check_time(self.time)?;
        networks::check(&self.rt, self.best_effort(), self.image())
    }

    /// The best-effort network as a list, for workloads with several.
    pub(crate) fn best_effort(&self) -> &[String] {
        std::slice::from_ref(&self.be)
    }

    pub(crate) fn image(&self) -> Image<'_> {
        Image { file: None, sizes: &self.sizes }
    }
}
