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

/// A library that warns of single frames of a client: any client could fill the log.
const PER_FRAME: &str = "h2";

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
        let targets = targets.with_target("reef", level).with_target(PER_FRAME, LevelFilter::OFF);
        // Cannot fail: the subscriber lives until the process ends.
        let _ = self.0.reload(targets);
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
/// something that there is not. What is logged per frame must be named.
fn targets(wanted: &str) -> Result<Targets, Usage> {
    let mut levels = wanted.split(',').map(|part| part.rsplit_once('=').map_or(part, |(_, of)| of));
    if let Some(wrong) = levels.find(|level| level.parse::<LevelFilter>().is_err()) {
        let (have, meant) = (LEVELS.join(", "), did_you_mean(wrong, LEVELS));
        let text = format!(
            "REEF_LOG: must be a level or TARGET=LEVEL, got {wrong:?} (have: {have}){meant}"
        );
        return Err(Usage(text));
    }
    let read =
        wanted.parse::<Targets>().map_err(|error| Usage(format!("REEF_LOG={wanted}: {error}")));
    let is_named = wanted.split(',').any(|part| part.trim().starts_with(PER_FRAME));
    let quiet = |targets: Targets| targets.with_target(PER_FRAME, LevelFilter::OFF);
    if is_named { read } else { read.map(quiet) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_that_warns_per_frame_is_silent_unless_named() {
        let warns = |wanted: &str, target: &str| {
            let warn = LevelFilter::WARN.into_level().unwrap();
            targets(wanted).unwrap().would_enable(target, &warn)
        };
        for wanted in ["info", "trace", "warn,reef_serve=debug"] {
            assert!(!warns(wanted, "h2::proto::ping_pong"), "{wanted}");
            assert!(warns(wanted, "reef_serve::net::listener"), "{wanted}");
        }
        assert!(warns("info,h2=debug", "h2::proto::ping_pong"));
    }

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
