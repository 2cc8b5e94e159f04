//! Progress of a long command: a bar on a terminal, a line for each step elsewhere.

use crate::report::{output, time};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::io::IsTerminal;
use std::sync::LazyLock;
use std::time::Duration;

/// Bars below each other.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Steps that are known in number and begin one after the other. All output is on stderr.
pub(crate) struct Progress {
    bar: ProgressBar,
    lines: bool,
    quiet: bool,
    begun: Cell<u64>,
    steps: u64,
}

impl Progress {
    /// Shows nothing if `quiet`.
    pub(crate) fn new(steps: usize, quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let steps = steps as u64;
        let bar = if quiet || !terminal { ProgressBar::hidden() } else { bar(steps) };
        if !quiet {
            tuning::show(terminal);
        }
        Self { bar, lines: !quiet && !terminal, quiet, begun: Cell::new(0), steps }
    }

    /// Says how long `count` measurements of at most `each` take, before the first step.
    pub(crate) fn expect(&self, count: usize, each: Duration) {
        if !self.quiet {
            note!("reef: {}", expected(count, each));
        }
    }

    /// The next step begins, so the one before is done.
    pub(crate) fn begin(&self, step: &str) {
        self.bar.set_position(self.begun.get());
        self.bar.set_message(step.to_owned());
        self.begun.set(self.begun.get() + 1);
        if self.lines {
            note!("{}/{} {step}", self.begun.get(), self.steps);
        }
    }

    /// All steps are done.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

fn expected(count: usize, each: Duration) -> String {
    let all = each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
    let (measurements, each) = (output::count(count, "measurement"), time::show(each));
    format!("{measurements} of up to {each}, so up to {} and the time to load", time::rough(all))
}

fn bar(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
    let bar = ProgressBar::new(steps).with_style(style.expect("a template that is right"));
    BARS.add(bar)
}

/// Devices that are opened with `tune=on` measure convolutions while a network is loaded.
#[cfg(any(feature = "cuda", feature = "hip"))]
mod tuning {
    use super::bar;
    use indicatif::ProgressBar;
    #[cfg(feature = "cuda")]
    use reef::cuda::{Tuning, observe_tuning};
    #[cfg(not(feature = "cuda"))]
    use reef::hip::{Tuning, observe_tuning};
    use std::sync::Mutex;

    /// A bar, or a line, for each convolution that is measured; once for the process.
    pub(crate) fn show(terminal: bool) {
        let shown: Mutex<Option<ProgressBar>> = Mutex::new(None);
        observe_tuning(move |tuning: &Tuning<'_>| {
            let Tuning { shape, done, plans } = *tuning;
            let text = format!("tuning {shape}");
            if !terminal {
                if done == 0 {
                    note!("{text} ({plans} plans)");
                }
                return;
            }
            let mut shown = shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let bar = shown.get_or_insert_with(|| bar(plans as u64).with_message(text));
            bar.set_position(done as u64);
            if done == plans {
                bar.finish_and_clear();
                *shown = None;
            }
        });
    }
}

#[cfg(not(any(feature = "cuda", feature = "hip")))]
mod tuning {
    /// No device that was compiled in tunes.
    pub(crate) fn show(_: bool) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_time_is_that_of_all_measurements() {
        let said = expected(35, Duration::from_secs(5));
        assert_eq!(said, "35 measurements of up to 5 s, so up to 2 min 55 s and the time to load");
    }
}
