//! What `reef bench pad` measures.

use crate::bench::policy::Lengths;
use crate::bench::sides::Sides;
use crate::report::results;
use anyhow::Result;
use reef::DeviceName;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: results::Common,
    #[command(flatten)]
    pub(crate) sides: Sides,
    /// Also with so many best-effort blocks at a time, on devices that have the option `beside`.
    #[arg(long, value_name = "BLOCKS", value_delimiter = ',')]
    pub(crate) beside: Vec<u32>,
    /// One side alone: the other one is another process's, such as under MPS.
    #[arg(long, conflicts_with = "beside")]
    pub(crate) side: Option<Side>,
    #[command(flatten)]
    pub(crate) lengths: Lengths,
}

/// A class of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Side {
    Rt,
    Be,
}

impl Args {
    /// The device with so many blocks at a time.
    pub(crate) fn narrow(&self, blocks: u32) -> Result<String> {
        let DeviceName { backend, ordinal, options } = DeviceName::parse(&self.common.device)?;
        let others = options
            .split('&')
            .filter(|option| !option.is_empty() && !option.starts_with("beside="));
        let options: Vec<_> =
            others.map(str::to_owned).chain([format!("beside={blocks}")]).collect();
        Ok(format!("{backend}:{ordinal}?{}", options.join("&")))
    }
}
