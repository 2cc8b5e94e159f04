//! What ran when on which unit, for people to look at.

use crate::hardware::{Ended, Task, Work};
use parking_lot::Mutex;
use reef_core::Priority;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Spans kept per unit; later ones are dropped.
const MOST: usize = 1 << 18;

/// One block on one unit. Times are since the device was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Which unit.
    pub unit: u32,
    /// Which hardware queue, numbered in the order in which they were opened.
    pub queue: u64,
    /// Of which class; padding is best-effort work on a real-time queue.
    pub priority: Priority,
    /// Whether it ran as padding.
    pub padding: bool,
    /// Position of the command in its queue.
    pub seq: u64,
    /// The kernel's name, `copy`, `fill` or `event`.
    pub name: &'static str,
    /// Which block of the kernel.
    pub block: u32,
    /// When it began.
    pub begin: Duration,
    /// When it ended.
    pub end: Duration,
    /// Whether it was stopped before it took effect.
    pub stopped: bool,
}

impl Span {
    pub(crate) fn new(
        task: &Task,
        unit: u32,
        begin: Duration,
        end: Duration,
        ended: &Ended,
    ) -> Self {
        let name = match &*task.work {
            Work::Kernel(launch) => launch.kernel().name(),
            Work::Copy(_) => "copy",
            Work::Fill(_) => "fill",
            Work::Event(_) => "event",
        };
        Self {
            unit,
            queue: task.queue,
            priority: task.priority,
            padding: task.padding,
            seq: task.seq.0,
            name,
            block: task.claim.index,
            begin,
            end,
            stopped: matches!(ended, Ended::Stopped),
        }
    }
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
        if spans.len() < MOST {
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
