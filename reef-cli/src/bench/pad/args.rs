//! What `reef bench pad` measures.

use crate::bench::policy::Lengths;
use crate::report::results;
use crate::workload::networks::Picture;
use anyhow::Result;
use reef::DeviceName;

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
    /// Also with so many best-effort blocks at a time, on devices that have the option `beside`.
    #[arg(long, value_name = "BLOCKS", value_delimiter = ',')]
    pub(crate) beside: Vec<u32>,
    /// Seconds for each measurement.
    #[arg(long, default_value_t = 5.0)]
    pub(crate) seconds: f64,
    /// Rows and columns of all pictures, instead of the networks' own.
    #[arg(long)]
    pub(crate) size: Option<usize>,
    #[command(flatten)]
    pub(crate) lengths: Lengths,
}

impl Args {
    pub(crate) fn picture(&self) -> Picture<'static> {
        Picture { file: None, size: self.size }
    }

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
