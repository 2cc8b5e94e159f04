//! What `reef model nodetest` is told.

use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folders of test data, or folders of such folders.
    #[arg(required = true)]
    pub(crate) folders: Vec<PathBuf>,
    /// The device: cpu, cpu:0?units=4 and so on.
    #[arg(long, default_value = "cpu")]
    pub(crate) device: String,
    /// Also runs each of them with preemptions at random times, which must change no bit.
    #[arg(long)]
    pub(crate) preempt: bool,
    /// Seed of the times.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Only those whose name contains this.
    #[arg(long)]
    pub(crate) only: Option<String>,
    /// Lists all that didn't pass.
    #[arg(long)]
    pub(crate) list: bool,
    /// Writes the table to a Markdown file.
    #[arg(long, value_name = "FILE.md")]
    pub(crate) report: Option<PathBuf>,
    /// How many have to pass, for scripts.
    #[arg(long, default_value_t = 0)]
    pub(crate) least: usize,
}
