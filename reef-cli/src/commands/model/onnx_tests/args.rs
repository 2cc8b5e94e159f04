//! Test data and the part of it that runs.

use std::path::PathBuf;

/// What `reef model verify --against onnx-tests` is told.
pub(crate) struct Args<'a> {
    /// Folders of test data, or folders of such folders.
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) device: String,
    /// Runs each of them with preemptions at random times, too.
    pub(crate) preempt: bool,
    /// Seed of the times.
    pub(crate) seed: u64,
    pub(crate) choice: &'a Choice,
}

/// Options of test data alone.
#[derive(clap::Args)]
pub(crate) struct Choice {
    /// Run only tests whose name contains this (onnx-tests).
    #[arg(long)]
    pub(crate) only: Option<String>,
    /// List all tests that did not pass (onnx-tests).
    #[arg(long)]
    pub(crate) list: bool,
    /// Write the table to a Markdown file (onnx-tests).
    #[arg(long, value_name = "FILE.md")]
    pub(crate) report: Option<PathBuf>,
    /// Fail if fewer tests pass (onnx-tests).
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) least: usize,
}

impl Choice {
    /// An option of these was given.
    pub(crate) fn is_given(&self) -> bool {
        self.only.is_some() || self.list || self.report.is_some() || self.least > 0
    }
}
