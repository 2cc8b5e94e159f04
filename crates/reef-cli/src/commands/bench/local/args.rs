//! Arguments of `reef bench local`.

use crate::report::checks::check_count;
use crate::report::results;
use crate::report::time;
use crate::report::usage::Usage;
use crate::workload::networks::{Sizes, check_all};
use crate::workload::tensors::shape;
use anyhow::Result;
use std::time::Duration;

/// Most requests of one turn: more would be a typing error.
const MAX_REQUESTS: usize = 1_000_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: results::Common,
    /// Model: a name of `reef model list`, or an ONNX file.
    #[arg(value_name = "MODEL", default_value = "resnet50")]
    pub(crate) network: String,
    /// Sizes that an ONNX file leaves open, by the name of an input or of a size.
    #[arg(long, value_name = "NAME=1,3,224,224", value_parser = shape)]
    pub(crate) shape: Vec<(String, Vec<usize>)>,
    /// Time from one request to the next, such as 5ms.
    #[arg(long, default_value = "5ms", value_parser = time::parse)]
    pub(crate) period: Duration,
    /// Number of requests of each row in a turn.
    #[arg(long, default_value_t = 300)]
    pub(crate) requests: u32,
    /// Number of turns.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    pub(crate) repeat: u32,
    /// Time for which both sides poll, in rows that do; longer than a request takes.
    #[arg(long, default_value = "2ms", value_parser = time::parse)]
    pub(crate) spin: Duration,
}

impl Args {
    /// Refuses what can't be measured.
    pub(super) fn check(&self) -> Result<()> {
        for (name, count) in [("--requests", self.requests), ("--repeat", self.repeat)] {
            check_count(name, count as usize, MAX_REQUESTS)?;
        }
        if self.spin > Duration::from_secs(1) {
            return Err(Usage(format!("--spin must be at most 1s, got {:?}", self.spin)).into());
        }
        check_all(std::slice::from_ref(&self.network), &self.sizes())
    }

    /// Sizes that the model leaves open.
    pub(super) fn sizes(&self) -> Sizes {
        Sizes { shape: self.shape.clone(), ..Sizes::default() }
    }
}
