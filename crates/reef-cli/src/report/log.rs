//! Logs of long-running commands, on stderr.

use crate::report::usage::Usage;
use anyhow::Result;
use reef::did_you_mean;
use std::io::IsTerminal;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, fmt, reload};

/// Levels, from the one that logs the least.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

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
    let targets = targets(&wanted)?;
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

/// Reads a level, or targets with levels. A word alone is a level: as a target it would log all of
/// something that there is not.
fn targets(wanted: &str) -> Result<Targets, Usage> {
    let mut levels = wanted.split(',').map(|part| part.rsplit_once('=').map_or(part, |(_, of)| of));
    if let Some(wrong) = levels.find(|level| level.parse::<LevelFilter>().is_err()) {
        let (have, meant) = (LEVELS.join(", "), did_you_mean(wrong, LEVELS));
        let text = format!(
            "REEF_LOG: must be a level or TARGET=LEVEL, got {wrong:?} (have: {have}){meant}"
        );
        return Err(Usage(text));
    }
    wanted.parse().map_err(|error| Usage(format!("REEF_LOG={wanted}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_level_is_refused_with_the_one_meant() {
        for (wanted, wrong) in [("inof", "inof"), ("warn,reef_serve=inof", "inof")] {
            let said = targets(wanted).unwrap_err().to_string();
            let want = format!("REEF_LOG: must be a level or TARGET=LEVEL, got {wrong:?} (have: ");
            assert!(said.starts_with(&want) && said.ends_with(": did you mean info?"), "{said}");
        }
        for wanted in ["info", "WARN", "warn,reef_serve=debug", "off"] {
            assert!(targets(wanted).is_ok(), "{wanted}");
        }
        assert!(targets("reef_serve").is_err(), "a target without a level");
    }
}
