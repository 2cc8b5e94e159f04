//! Launches: gates and marks of best-effort guests, holds of real-time guests.

use crate::catch_panics::catch_panics;
use crate::driver::calls::{self, Stream};
use crate::driver::pause_gate::touch;
use crate::driver::state::Inside;
use crate::guest::capture::{self, Capture};
use crate::guest::device::Device;
use crate::guest::find;
use crate::guest::iteration;
use crate::guest::meter::Meter;
use crate::guest::tree::stream::Stream as StreamRecord;
use crate::guest::ungated_captures;
use crate::limit::device::{self, LimitState};
use crate::limit::refusal::say;
use crate::order;
use crate::settings::limits_time;
use reef_cuda_abi::codes::NOT_PERMITTED;
use reef_guest::hold::Holders;
use reef_guest::pace;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};
use std::time::{Duration, Instant};

/// Interval between polls of a thread that is too far ahead.
const POLL_INTERVAL: Duration = Duration::from_micros(50);
/// Maximum wait of such a thread: longer than any gate is closed.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Kind of launched work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A kernel with its number of blocks.
    Kernel(u64),
    /// A kernel that may begin before the previous one has ended. A gate between them would prevent
    /// that.
    Overlapping,
    /// A graph, with its number of kernels if the program is real-time.
    Graph(u64),
    /// A slice of a kernel, and whether it is the first one: each has a gate before it.
    Slice(bool),
    /// A copy or a fill of the device's memory: it waits for its part of the time, but at no gate.
    Copy,
}

impl Work {
    /// Returns the number of launches that it counts as.
    fn weight(self) -> u32 {
        if matches!(self, Self::Graph(_)) { 16 } else { 1 }
    }
}

/// Launch on a scheduled stream.
#[derive(Clone, Copy, Debug)]
struct Launch {
    stream: Stream,
    known: &'static StreamRecord,
    work: Work,
}

/// Launches `work` on `stream` by `real`, behind the gate of a best-effort guest, or with the hold
/// of a real-time one: decides which of them, and whether the thread must wait. A launch whose time
/// is limited and can't be measured is refused.
#[inline]
pub(crate) fn launch_gated(stream: Stream, work: Work, real: impl FnOnce() -> u32) -> u32 {
    let _touch = touch();
    let Some(_inside) = Inside::enter() else { return real() };
    let launch = catch_panics(|| prepare(stream, work));
    if launch.is_none() && catch_panics(|| is_refused(stream)) {
        return NOT_PERMITTED;
    }
    with_launch(|| launch, real)
}

/// Returns whether the time of a launch without a record is limited: the system has refused a
/// thread, a page or memory for it.
#[cold]
fn is_refused(stream: Stream) -> bool {
    if !limits_time() || capture::of(stream) != Capture::None {
        return false;
    }
    let is_limited = match device::of_stream(stream) {
        LimitState::Unlimited => false,
        LimitState::Limited(limited) => limited.account().has_time_limit(),
        LimitState::Broken => true,
    };
    if is_limited {
        say("the system refuses what a limit of time needs: launches are refused");
    }
    is_limited
}

/// Waits until few launches of a stream are in flight, so that all slices of the next one fit into
/// the driver's queue. Returns whether that is so after 2 s.
pub(crate) fn wait_for_room(stream: Stream) -> bool {
    let Some(_inside) = Inside::enter() else { return false };
    catch_panics(|| {
        let Some(known) = find::stream(stream) else { return false };
        let launch = Launch { stream, known, work: Work::Graph(0) };
        let has_room = || !launch.state().is_far_ahead(launch.known.done(), true);
        launch.wait_until(has_room);
        has_room()
    })
}

/// Launches a slice of a kernel on `stream` by `real`, for a thread that is inside this library.
pub(crate) fn launch_slice(stream: Stream, is_first: bool, real: impl FnOnce() -> u32) -> u32 {
    let _touch = touch();
    with_launch(|| prepare(stream, Work::Slice(is_first)), real)
}

/// Copies or fills on `stream` by `real`. If the program's part of the time is limited, it counts
/// as work like a launch if `takes_device` says that it uses device memory alone.
#[inline]
pub(crate) fn copy(
    stream: Stream,
    takes_device: impl FnOnce() -> bool,
    real: impl FnOnce() -> u32,
) -> u32 {
    order::shared(|| {
        let _touch = touch();
        let Some(_inside) = Inside::copying() else { return real() };
        with_launch(|| prepare_copy(stream, takes_device), real)
    })
}

/// Launches kernels on several streams by one call.
pub(crate) fn launch_all(
    all: impl Iterator<Item = (Stream, Work)>,
    real: impl FnOnce() -> u32,
) -> u32 {
    let real = || order::shared(real);
    let _touch = touch();
    let Some(_inside) = Inside::enter() else { return real() };
    let mut is_any_refused = false;
    let prepare_each = |(stream, work)| {
        let launch = prepare(stream, work);
        is_any_refused |= launch.is_none() && is_refused(stream);
        launch
    };
    let launches: Vec<_> = catch_panics(|| all.filter_map(prepare_each).collect());
    let code = if is_any_refused { NOT_PERMITTED } else { real() };
    catch_panics(|| launches.into_iter().for_each(|launch| launch.finish(code)));
    code
}

fn with_launch(before: impl FnOnce() -> Option<Launch>, real: impl FnOnce() -> u32) -> u32 {
    let launch = catch_panics(before);
    let code = real();
    catch_panics(|| launch.into_iter().for_each(|launch| launch.finish(code)));
    code
}

/// Does the work before a copy. `None`: there is no work after it.
fn prepare_copy(stream: Stream, takes_device: impl FnOnce() -> bool) -> Option<Launch> {
    if capture::of(stream) != Capture::None {
        return None;
    }
    let known = find::stream(stream)?;
    known.context().device.meter.as_ref()?;
    if !takes_device() {
        return None;
    }
    Launch { stream, known, work: Work::Copy }.run()
}

/// Does the work before a launch. `None`: there is no work after it.
fn prepare(stream: Stream, work: Work) -> Option<Launch> {
    let launch = |known| Launch { stream, known, work };
    match capture::of(stream) {
        Capture::None => launch(find::stream(stream)?).run(),
        Capture::Of(capture) => launch(find::in_capture(stream)?).capture(capture),
        Capture::Unclear => None,
    }
}

impl Launch {
    fn device(&self) -> &'static Device {
        self.known.context().device
    }

    fn state(&self) -> &'static pace::Stream {
        &self.known.counts
    }

    fn run(self) -> Option<Self> {
        let device = self.device();
        let counts = &device.page.counts;
        match self.work {
            Work::Kernel(_) | Work::Overlapping => count(&counts.kernels),
            Work::Graph(kernels) => {
                count(&counts.graphs);
                counts.graph_kernels.fetch_add(kernels, Relaxed);
            }
            Work::Slice(is_first) if is_first => count(&counts.kernels),
            Work::Copy | Work::Slice(_) => {}
        }
        device.wait_for_time(self.known, || self.mark_again());
        if device.is_real_time() {
            self.hold_others();
        } else {
            device.phase.launch();
            self.wait_and_gate();
        }
        Some(self)
    }

    /// Holds other guests for a real-time launch, unless they are held.
    fn hold_others(&self) {
        let device = self.device();
        if device.page.activity.launch() {
            device.hold_peers();
            device.wake_watchdog();
        }
        iteration::note_launch(device);
    }

    /// Delays a best-effort launch: this thread waits if it is far ahead, the stream waits at a
    /// gate.
    fn wait_and_gate(&self) {
        let (page, state) = (&self.device().page, self.state());
        let is_closed = page.holders.is_closed();
        if is_closed {
            count(&page.counts.delayed);
        }
        let is_far = || state.is_far_ahead(self.known.done(), is_closed);
        match self.work {
            // There is room for all slices of a launch; other threads wait for the last one.
            Work::Slice(_) => {}
            _ if is_far() => self.wait(),
            _ => {}
        }
        let apart = self.device().spacing.launches();
        let may_gate = match self.work {
            Work::Kernel(_) | Work::Graph(_) => true,
            Work::Overlapping => is_closed,
            Work::Slice(_) => true,
            Work::Copy => false,
        };
        // A graph may have no gate inside.
        let is_always = matches!(self.work, Work::Slice(_) | Work::Graph(_));
        let is_due = may_gate && (is_always || state.needs_gate(is_closed, apart));
        if is_due && self.device().has_daemon() && self.gate() {
            count(&page.counts.gates);
            state.note_gate();
        }
    }

    #[cold]
    fn wait(&self) {
        let (page, state) = (&self.device().page, self.state());
        self.wait_until(|| !state.is_far_ahead(self.known.done(), page.holders.is_closed()));
    }

    /// Waits, outside the driver and not for ever.
    fn wait_until(&self, is_over: impl Fn() -> bool) {
        if is_over() {
            return;
        }
        count(&self.device().page.counts.waits);
        let begin = Instant::now();
        while !is_over() && begin.elapsed() < MAX_WAIT {
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn gate(&self) -> bool {
        let gate = self.known.context().gate();
        // CU_STREAM_WAIT_VALUE_GEQ
        // SAFETY: the gate is a word of the guest's page, which the context keeps registered.
        let code = unsafe { calls::wait_value(self.stream.0, gate, Holders::PASS, 0) };
        self.is_taken(code)
    }

    fn mark(&self, number: u32) {
        if !self.is_taken(self.known.mark(number)) {
            self.state().note_sync(number); // or a thread would wait for it
        }
    }

    fn is_taken(&self, code: Option<u32>) -> bool {
        if code != Some(0) {
            count(&self.device().page.counts.refused);
        }
        code == Some(0)
    }

    /// Treats a launch that is captured into a graph: best-effort graphs have gates inside.
    fn capture(self, capture: u64) -> Option<Self> {
        let device = self.device();
        count(&device.page.counts.captured);
        let is_due = match self.work {
            _ if ungated_captures::has(capture) => false,
            Work::Kernel(blocks) => self.state().note_capture(capture, blocks),
            Work::Overlapping | Work::Graph(_) | Work::Slice(_) | Work::Copy => false,
        };
        if is_due && !device.is_real_time() && self.gate() {
            count(&device.page.counts.graph_gates);
        }
        None
    }

    /// Does the work after a launch, once the driver has returned.
    fn finish(self, code: u32) {
        if code == 0 {
            self.account();
        }
        self.device().settled.fetch_add(1, Release);
    }

    fn account(&self) {
        let device = self.device();
        device.meter.iter().for_each(Meter::note_launch);
        let every = device.mark_every();
        let due = self.state().note_launch_marking(self.work.weight(), every);
        if let Some(number) = due {
            self.mark(number);
            device.time(every);
        } else if (device.is_real_time() || device.meter.is_some()) && self.stream.is_own() {
            // No other thread can insert a mark there.
            self.mark_rest();
        }
    }

    /// Inserts a mark after launches without one, or once more if it is long in coming: no other
    /// thread may be able to name the stream.
    fn mark_again(&self) {
        self.mark_rest();
        if !self.known.is_idle() {
            let due = || self.state().mark_again(self.known.done());
            capture::unless_open(|| due().into_iter().for_each(|number| self.mark(number)));
        }
    }

    /// Inserts a mark after launches without one.
    fn mark_rest(&self) {
        self.state().mark_rest().into_iter().for_each(|number| self.mark(number));
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
