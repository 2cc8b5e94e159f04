//! Growth of a number between two scrapes.

use crate::remote::scrape::{Labels, Scrape};
use std::time::Duration;

/// Two polls, and the time between them.
#[derive(Clone, Copy)]
pub(super) struct Rates<'a> {
    pub(super) before: &'a Scrape,
    pub(super) after: &'a Scrape,
    pub(super) time: Duration,
}

impl Rates<'_> {
    /// Growth per second.
    pub(super) fn rate(&self, name: &str, of: impl Fn(&Labels) -> bool + Copy) -> f64 {
        let before = self.before.sum(name, of);
        grown(before, self.after.sum(name, of)) / self.time.as_secs_f64().max(1e-9)
    }
}

/// A sum that became less began anew: that is another daemon.
pub(super) fn grown(before: Option<f64>, after: Option<f64>) -> f64 {
    let (before, after) = (before.unwrap_or(0.0), after.unwrap_or(0.0));
    if after < before { after } else { after - before }
}
