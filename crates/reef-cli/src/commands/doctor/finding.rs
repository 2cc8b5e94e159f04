//! One line of `reef doctor`.

use serde::Serialize;
use std::fmt;

/// Subject of a check, in the order of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Check {
    /// The driver's library loads and starts.
    Driver,
    /// The driver sees a GPU.
    Gpu,
    /// Programs share the GPU without time slices.
    Mps,
    /// A daemon serves.
    Daemon,
    /// The daemon grants real time.
    Rights,
    /// Limits of memory and time can be kept.
    Limits,
    /// The library for unmodified programs is there.
    Library,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Driver => "driver",
            Self::Gpu => "GPU",
            Self::Mps => "MPS",
            Self::Daemon => "daemon",
            Self::Rights => "rights",
            Self::Limits => "limits",
            Self::Library => "library",
        })
    }
}

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ok,
    /// Not there, which is a fault only if it is needed.
    Absent,
    Wrong,
}

/// Outcome of a check, and what to do about it.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) check: Check,
    pub(super) state: State,
    pub(super) found: String,
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: Check, found: impl Into<String>) -> Self {
        Self { check, state: State::Ok, found: found.into(), remedy: None }
    }

    pub(super) fn absent(check: Check, found: impl Into<String>, remedy: &str) -> Self {
        Self { check, state: State::Absent, found: found.into(), remedy: Some(remedy.into()) }
    }

    pub(super) fn wrong(check: Check, found: impl Into<String>, remedy: &str) -> Self {
        Self { check, state: State::Wrong, found: found.into(), remedy: Some(remedy.into()) }
    }

    /// Makes it wrong if it is absent and needed.
    pub(super) fn judged(mut self, is_needed: bool) -> Self {
        if is_needed && self.state == State::Absent {
            self.state = State::Wrong;
        }
        self
    }

    /// Lines on the screen, in colours on request.
    pub(super) fn lines(&self, colours: bool) -> String {
        let (sign, colour) = match self.state {
            State::Ok => ("ok   ", "32"),
            State::Absent => ("–    ", "33"),
            State::Wrong => ("WRONG", "31"),
        };
        let sign = if colours { format!("\x1b[{colour}m{sign}\x1b[0m") } else { sign.into() };
        let remedy = self.remedy.as_ref().map(|remedy| format!("\n               → {remedy}"));
        // A driver's or a daemon's text may have anything in it.
        let found: String =
            self.found.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("{sign} {:<8} {found}{}", self.check.to_string(), remedy.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_is_wrong_only_if_needed() {
        let absent = || Finding::absent(Check::Mps, "none", "start it");
        assert_eq!(absent().judged(false).state, State::Absent);
        assert_eq!(absent().judged(true).state, State::Wrong);
        assert_eq!(Finding::ok(Check::Mps, "runs").judged(true).state, State::Ok);
    }

    #[test]
    fn foreign_text_cannot_steer_a_terminal() {
        let finding = Finding::wrong(Check::Gpu, "a\x1b[2Jb\nc", "none");
        assert!(
            finding.lines(false).starts_with("WRONG GPU      a [2Jb c\n"),
            "{}",
            finding.lines(false)
        );
    }
}
