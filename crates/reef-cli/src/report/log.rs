//! Logs of long-running commands, on stderr.

use anyhow::{Context, Result};
use std::io::IsTerminal;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, fmt, reload};

/// Format of logs.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

/// Changes what is logged while the command runs.
pub(crate) struct Log(reload::Handle<Targets, Registry>);

impl Log {
    /// Logs up to this level from now on; of libraries no more than `info`.
    pub(crate) fn set_level(&self, level: LevelFilter) {
        let targets = Targets::new().with_default(level.min(LevelFilter::INFO));
        // Cannot fail: the subscriber lives until the process ends.
        let _ = self.0.reload(targets.with_target("reef", level));
    }
}

/// Logs from now on; `REEF_LOG` says what.
pub(crate) fn start(format: Format) -> Result<Log> {
    let wanted = std::env::var("REEF_LOG").unwrap_or_else(|_| "info".into());
    let targets: Targets = wanted.parse().with_context(|| format!("REEF_LOG={wanted}"))?;
    let ansi = std::io::stderr().is_terminal();
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(ansi);
    let (targets, handle) = reload::Layer::new(targets);
    let filtered = tracing_subscriber::registry().with(targets);
    match format {
        Format::Text => filtered.with(lines).init(),
        Format::Json => filtered.with(lines.json()).init(),
    }
    Ok(Log(handle))
}
