//! What long-running commands log, on stderr.

use anyhow::{Context, Result};
use std::io::IsTerminal;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

/// How logs look.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

/// Logs from now on; `REEF_LOG` says what.
pub(crate) fn start(format: Format) -> Result<()> {
    let wanted = std::env::var("REEF_LOG").unwrap_or_else(|_| "info".into());
    let targets: Targets = wanted.parse().with_context(|| format!("REEF_LOG={wanted}"))?;
    let ansi = std::io::stderr().is_terminal();
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(ansi);
    let filtered = tracing_subscriber::registry().with(targets);
    match format {
        Format::Text => filtered.with(lines).init(),
        Format::Json => filtered.with(lines.json()).init(),
    }
    Ok(())
}
