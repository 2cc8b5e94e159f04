//! Launches: gates and marks of best-effort guests, holds of real-time guests.

use super::quietly::quietly;
use crate::bind::state::Inside;
use crate::guest::capture::{self, Capture};
use crate::guest::contexts;
use crate::guest::entries::Context;
use crate::guest::meter::Meter;
use crate::guest::streams::{MARKS, STREAMS, key};
use crate::own::calls::{self, Stream};
use reef_guest::hold::Holders;
use reef_guest::pace;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};
use std::time::{Duration, Instant};

/// How often a thread that is too far ahead looks again.
const NAP: Duration = Duration::from_micros(50);
/// How long it waits at most: longer than any gate is closed.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A kernel of so many blocks.
    Kernel(u64),
    /// A kernel that may begin before the one in front of it has ended: a gate between them would end that.
    Overlapping,
    /// A graph.
    Graph,
    /// A copy or a fill of the device's memory: it waits for its part of the time, and at no gate.
    Copy,
}

impl Work {
    /// As how many launches it counts.
    fn weight(self) -> u32 {
        if self == Self::Graph { 16 } else { 1 }
    }
}

/// A launch whose stream and context are known.
#[derive(Clone, Copy, Debug)]
struct Launch {
    context: Context,
    stream: Stream,
    slot: usize,
    work: Work,
}

/// Launches `work` on `stream` by `real`.
#[inline]
pub(crate) fn launch(stream: Stream, work: Work, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return real() };
    around(|| before(stream, work), real)
}

/// Copies or fills on `stream` by `real`. If the program's part of the time is limited, that is work like a launch, as
/// far as `takes_device` says that it takes the device's memory alone.
#[inline]
pub(crate) fn copy(
    stream: Stream,
    takes_device: impl FnOnce() -> bool,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(_inside) = Inside::copying() else { return real() };
    around(|| before_copy(stream, takes_device), real)
}

fn around(before: impl FnOnce() -> Option<Launch>, real: impl FnOnce() -> u32) -> u32 {
    let launch = quietly(before);
    let code = real();
    quietly(|| launch.into_iter().for_each(|launch| launch.after(code)));
    code
}

/// What belongs in front of a copy. `None`: nothing belongs behind it.
fn before_copy(stream: Stream, takes_device: impl FnOnce() -> bool) -> Option<Launch> {
    let name = calls::context();
    let context = contexts::context(name)?;
    context.device.meter.as_ref()?;
    if capture::of(stream) != Capture::None || !takes_device() {
        return None;
    }
    let slot = STREAMS.slot(key(name, stream))?;
    Launch { context, stream, slot, work: Work::Copy }.run()
}

/// What belongs in front of a launch. `None`: nothing belongs behind it.
fn before(stream: Stream, work: Work) -> Option<Launch> {
    let name = calls::context();
    let context = contexts::context(name)?;
    let slot = STREAMS.slot(key(name, stream))?;
    let launch = Launch { context, stream, slot, work };
    match capture::of(stream) {
        Capture::None => launch.run(),
        Capture::Of(capture) => launch.capture(capture),
        Capture::Unclear => None,
    }
}

impl Launch {
    fn state(&self) -> &'static pace::Stream {
        STREAMS.get(self.slot).unwrap_or_else(|| unreachable!("slots are of this table"))
    }

    fn run(self) -> Option<Self> {
        let device = self.context.device;
        let counts = &device.page.counts;
        device.own(self.slot);
        count(match self.work {
            Work::Kernel(_) | Work::Overlapping => &counts.kernels,
            Work::Graph => &counts.graphs,
            Work::Copy => &device.copies,
        });
        device.wait_for_time(self.slot, || self.mark_rest());
        match device.is_real_time() {
            true => self.go_first(),
            false => self.stand_back(),
        }
        Some(self)
    }

    /// A real-time launch holds others, unless they are held.
    fn go_first(&self) {
        let device = self.context.device;
        if device.page.activity.launch() {
            device.hold_peers();
            device.wake_keeper();
        }
    }

    /// A best-effort launch waits for its turn: this thread if it is far ahead, the stream at a gate.
    fn stand_back(&self) {
        let (page, state) = (&self.context.device.page, self.state());
        let is_closed = page.holders.is_closed();
        if is_closed {
            count(&page.counts.delayed);
        }
        if state.is_far_ahead(MARKS.read(self.slot), is_closed) {
            self.wait();
        }
        let apart = self.context.device.spacing.launches();
        let may_gate = match self.work {
            Work::Kernel(_) | Work::Graph => true,
            Work::Overlapping => is_closed,
            Work::Copy => false,
        };
        let is_due = may_gate && state.needs_gate(is_closed, apart);
        if is_due && self.context.device.has_daemon() && self.gate() {
            count(&page.counts.gates);
            state.gated();
        }
    }

    #[cold]
    fn wait(&self) {
        let (page, state) = (&self.context.device.page, self.state());
        count(&page.counts.waits);
        let begin = Instant::now();
        while state.is_far_ahead(MARKS.read(self.slot), page.holders.is_closed())
            && begin.elapsed() < PATIENCE
        {
            std::thread::sleep(NAP);
        }
    }

    fn gate(&self) -> bool {
        // CU_STREAM_WAIT_VALUE_GEQ
        let code = calls::wait_value(self.stream.0, self.context.gate, Holders::PASS, 0);
        self.is_taken(code)
    }

    fn mark(&self, number: u32) {
        let at = self.context.marks.saturating_add(4 * self.slot as u64);
        let code = calls::write_value(self.stream.0, at, number, 0);
        if !self.is_taken(code) {
            self.state().synced(number); // or a thread would wait for it
        }
    }

    fn is_taken(&self, code: Option<u32>) -> bool {
        if code != Some(0) {
            count(&self.context.device.page.counts.refused);
        }
        code == Some(0)
    }

    /// A launch that becomes part of a graph: best-effort graphs have gates inside.
    fn capture(self, capture: u64) -> Option<Self> {
        let device = self.context.device;
        count(&device.page.counts.captured);
        let is_due = match self.work {
            Work::Kernel(blocks) => self.state().captured(capture, blocks),
            Work::Overlapping | Work::Graph | Work::Copy => false,
        };
        if is_due && !device.is_real_time() && self.gate() {
            count(&device.page.counts.graph_gates);
        }
        None
    }

    /// What belongs behind a launch, once the driver has answered.
    fn after(self, code: u32) {
        if code == 0 {
            self.account();
        }
        self.context.device.settled.fetch_add(1, Release);
    }

    fn account(&self) {
        let device = self.context.device;
        device.meter.iter().for_each(Meter::launched);
        let every = device.mark_every();
        let due = self.state().launched_of(self.work.weight(), every);
        if let Some(number) = due {
            self.mark(number);
            device.time(every);
        } else if (device.is_real_time() || device.meter.is_some()) && self.stream.is_own() {
            // No other thread can put a mark there.
            self.mark_rest();
        }
    }

    /// Puts a mark behind what has none.
    fn mark_rest(&self) {
        self.state().mark_rest().into_iter().for_each(|number| self.mark(number));
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
