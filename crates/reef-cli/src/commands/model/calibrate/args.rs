//! Options of the command.

use super::samples::{Input, Inputs, Samples};
use crate::workload::networks::Sizes;
use anyhow::Result;
use reef::op::Format;
use std::path::PathBuf;

/// Samples that a calibration takes, and samples that its error is measured with, at most.
const MAX_SAMPLES: u64 = 65_536;

/// Format of numbers of 8 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FormatName {
    /// Whole numbers from -127 to 127.
    Int8,
    /// Floats with 4 bits of exponent and 3 of mantissa.
    Fp8,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Int8 => Self::Int8,
            FormatName::Fp8 => Self::Fp8,
        }
    }
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model: a name of `reef model list`, a folder or an ONNX file.
    pub(super) model: String,
    /// Format of the numbers.
    #[arg(long, value_enum)]
    pub(super) format: FormatName,
    /// File of scales to write.
    #[arg(long, value_name = "FILE")]
    pub(super) out: PathBuf,
    /// Samples: images, arrays of numpy, or folders of them. Without it they are made up.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    samples: Vec<PathBuf>,
    /// Largest number of samples; the number of those that are made up.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=MAX_SAMPLES))]
    count: u64,
    /// Percentage of an image's values in each tensor that are not above its largest.
    #[arg(long, value_name = "P", default_value_t = 100.0)]
    pub(super) percentile: f64,
    /// Samples that the error is measured with. Without it they are the first of --samples, or
    /// others that are made up.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    check: Vec<PathBuf>,
    /// Largest number of samples that the error is measured with.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(0..=MAX_SAMPLES))]
    checks: u64,
    /// Device that runs the model on the samples: cpu, cuda:0; `reef devices` lists them.
    #[arg(long, default_value = "cpu")]
    pub(super) device: String,
    #[command(flatten)]
    pub(super) sizes: Sizes,
    /// Seed of made-up samples, and of the weights of a model that is built.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl Args {
    pub(super) fn samples<'a>(&self, all: &'a Samples<'_>) -> Result<Inputs<'a>> {
        match &self.samples[..] {
            [] => Ok(all.made_up(self.seed, 0..self.count)),
            paths => all.read("--samples", paths, self.count),
        }
    }

    /// Samples that the error is measured with.
    pub(super) fn checks(&self, all: &Samples<'_>) -> Result<Vec<Input>> {
        let checks = match (&self.check[..], &self.samples[..]) {
            ([], []) => all.made_up(self.seed, self.count..self.count + self.checks),
            ([], paths) => all.read("--samples", paths, self.count.min(self.checks))?,
            (paths, _) => all.read("--check", paths, self.checks)?,
        };
        checks.collect()
    }
}
