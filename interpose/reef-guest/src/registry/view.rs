//! Views of guests, for metrics.

use super::connection::Guest;
use super::relay::Relay;
use crate::colocation::allowance::Allowance;
use crate::join::wire::Uuid;
use crate::page::layout::{Class, Counts, Identity};
use crate::page::spans::Time;
use crate::page::times::TimesView;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Guest at one moment. The counts are the guest's own.
#[derive(Clone, Debug)]
pub struct GuestView {
    /// Its number, class and process ID.
    pub who: Identity,
    /// Its user.
    pub uid: u32,
    /// Its job, whose processes are held together; empty: none.
    pub job: String,
    /// Its device.
    pub device: Uuid,
    /// Part of the device's time, in parts per million; zero: no limit.
    pub part: u32,
    /// Launches of kernels, captured ones left out.
    pub kernels: u64,
    /// Launches of graphs.
    pub graphs: u64,
    /// Kernels of the graphs that a real-time guest launched.
    pub graph_kernels: u64,
    /// Launches that found the gate closed.
    pub delayed: u64,
    /// Gates put into streams and graphs.
    pub gates: u64,
    /// Times at which it opened its own gate because it had been closed for too long.
    pub starvation_reliefs: u64,
    /// Gates and marks that its driver refused.
    pub refused: u64,
    /// Launches of its long kernels in slices.
    pub sliced: u64,
    /// Launches of its long kernels as a whole.
    pub whole: u64,
    /// Times at which a real-time guest's peers were released because it was busy without progress.
    pub stalls: u64,
    /// True if it is held (best-effort) or holds (real-time).
    pub is_active: bool,
    /// Times at which it was held, or held others, the present one left out.
    pub holds: u64,
    /// Time for which it was held, or held others.
    pub held: Duration,
    /// Time for which it seemed to use its device. For a real-time guest: the time for which it
    /// held others, a little more than its work took. For a best-effort guest: from the guest's own
    /// polls, 50 a second.
    pub busy: Duration,
    /// Its shares next to busy real-time guests; of a real-time guest, its target.
    pub colocate: Allowance,
    /// Part of the time that passes next to real-time guests now, in parts per million: of a
    /// real-time guest, what it lets through by its target.
    pub duty: u32,
    /// Time for which a best-effort guest passed although a real-time guest was busy.
    pub passed: Duration,
    /// Iterations of a real-time guest: launches and a wait for the device.
    pub iterations: u64,
    /// Time of all iterations together.
    pub iteration_time: Duration,
    /// Last measured latency of a real-time guest with a target, as a multiple of that alone.
    pub growth: Option<f64>,
    /// Measurements of a real-time guest alone for which its peers were held for more than 20 ms.
    pub long_silences: u64,
    /// Fault of its page, if the header that the daemon wrote was changed.
    pub fault: Option<String>,
    /// Host times of its calls, if it has a profile. They are those of all of its devices together,
    /// shown on one of them.
    pub times: Vec<TimesView>,
}

/// Last spans of a guest, for traces.
#[derive(Clone, Debug)]
pub struct History {
    /// Guest at this moment.
    pub guest: GuestView,
    /// Time at which it joined.
    pub joined: Time,
    /// Number of ended spans in which it was held, or held others.
    pub ended: u64,
    /// Begin of the open span.
    pub since: Option<Time>,
    /// Ended spans, the last one last, as the guest's page has them.
    pub spans: Vec<(Time, Time)>,
}

impl History {
    pub(super) fn new(guest: &Guest) -> Self {
        let spans = &guest.page.spans;
        Self {
            guest: GuestView::new(guest),
            joined: guest.joined,
            ended: spans.ended(),
            since: spans.since(),
            spans: spans.behind(0),
        }
    }
}

impl GuestView {
    pub(super) fn new(guest: &Guest) -> Self {
        let Guest { who, uid, job, device, part, page, .. } = guest;
        let Counts {
            kernels,
            graphs,
            delayed,
            gates,
            graph_gates,
            starvation_reliefs,
            refused,
            ..
        } = &page.counts;
        let read = |count: &AtomicU64| count.load(Relaxed);
        let held = Duration::from_nanos(page.spans.total(Time::now()));
        let busy = match who.class {
            Class::RealTime => held,
            Class::BestEffort => Duration::from_nanos(read(&page.counts.busy_ns)),
        };
        Self {
            who: *who,
            uid: *uid,
            job: job.clone(),
            device: *device,
            part: *part,
            kernels: read(kernels),
            graphs: read(graphs),
            graph_kernels: read(&page.counts.graph_kernels),
            delayed: read(delayed),
            gates: read(gates).saturating_add(read(graph_gates)),
            starvation_reliefs: read(starvation_reliefs),
            refused: read(refused),
            sliced: read(&page.counts.sliced),
            whole: read(&page.counts.whole),
            stalls: guest.relay.as_ref().map_or(0, Relay::stalls),
            is_active: guest.is_active(),
            holds: page.spans.ended(),
            held,
            busy,
            colocate: guest.pass.allowance,
            duty: guest.pass.duty(),
            passed: guest.pass.passed(),
            iterations: page.iterations.count(),
            iteration_time: Duration::from_nanos(read(&page.counts.iteration_ns)),
            growth: guest.pass.growth(),
            long_silences: guest.pass.long_silences(),
            fault: page.check(who).err(),
            times: page.times.read(),
        }
    }
}
