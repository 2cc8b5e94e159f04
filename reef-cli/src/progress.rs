//! How far a long command is: a bar on a terminal, a line for each step elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::io::IsTerminal;

/// Steps that are known in number and begin one after the other. All output is on stderr.
pub(crate) struct Progress {
    bar: ProgressBar,
    lines: bool,
    begun: Cell<u64>,
    steps: u64,
}

impl Progress {
    /// Shows nothing if `quiet`.
    pub(crate) fn new(steps: usize, quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let steps = steps as u64;
        let bar = if quiet || !terminal { ProgressBar::hidden() } else { ProgressBar::new(steps) };
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
        bar.set_style(style.expect("a template that is right"));
        Self { bar, lines: !quiet && !terminal, begun: Cell::new(0), steps }
    }

    /// The next step begins, so the one before is done.
    pub(crate) fn begin(&self, step: &str) {
        self.bar.set_position(self.begun.get());
        self.bar.set_message(step.to_owned());
        self.begun.set(self.begun.get() + 1);
        if self.lines {
            eprintln!("{}/{} {step}", self.begun.get(), self.steps);
        }
    }

    /// All steps are done.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}
