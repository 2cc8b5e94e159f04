//! Record of the tasks on each unit and their times, for people to look at.

use super::task::{Task, TaskEnd};
use super::work::Work;
use parking_lot::Mutex;
use reef_core::Span;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Spans kept per unit; later ones are dropped.
const MAX_SPANS: usize = 1 << 18;

/// Entry for a task that ran from `begin` to `end`.
pub(crate) fn span(
    task: &Task,
    unit: u32,
    begin: Duration,
    end: Duration,
    ended: &TaskEnd,
) -> Span {
    let name = match &*task.work {
        Work::Kernel(launch) => launch.kernel().name(),
        Work::Copy(_) => "copy",
        Work::Fill(_) => "fill",
        Work::Event(_) => "event",
    };
    let mut span = Span::new(name, unit, begin, end);
    (span.queue, span.priority, span.padding) = (task.queue, task.priority, task.padding);
    (span.seq, span.block) = (task.seq, task.claim.index);
    span.stopped = matches!(ended, TaskEnd::Stopped);
    span
}

#[derive(Debug)]
pub(crate) struct Trace {
    on: AtomicBool,
    units: Vec<Mutex<Vec<Span>>>,
}

impl Trace {
    pub(crate) fn new(units: u32) -> Self {
        let units = (0..units).map(|_| Mutex::default()).collect();
        Self { on: AtomicBool::new(false), units }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    pub(crate) fn push(&self, unit: u32, span: Span) {
        let mut spans = self.units[unit as usize].lock();
        if spans.len() < MAX_SPANS {
            spans.push(span);
        }
    }

    pub(crate) fn take(&self) -> Vec<Span> {
        let mut all: Vec<Span> =
            self.units.iter().flat_map(|spans| std::mem::take(&mut *spans.lock())).collect();
        all.sort_by_key(|span| (span.begin, span.unit));
        all
    }
}
