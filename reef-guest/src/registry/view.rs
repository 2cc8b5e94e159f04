//! What is known of a guest, for metrics.

use super::connection::Guest;
use super::relay::Relay;
use crate::join::wire::Uuid;
use crate::page::layout::{Class, Counts, Identity};
use crate::page::spans::Time;
use crate::page::times::TimesView;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A guest at one moment. Counts are the guest's own words.
#[derive(Clone, Debug)]
pub struct GuestView {
    /// Its number, class and process.
    pub who: Identity,
    /// Its user.
    pub uid: u32,
    /// Processes of a job are held together; empty: none.
    pub job: String,
    /// Its device.
    pub device: Uuid,
    /// Launches of kernels, captured ones left out.
    pub kernels: u64,
    /// Launches of graphs.
    pub graphs: u64,
    /// Launches that found the gate closed.
    pub delayed: u64,
    /// Gates put into streams and graphs.
    pub gates: u64,
    /// How often it opened its own gate because it had been closed for too long.
    pub breathers: u64,
    /// Gates and marks that its driver refused.
    pub refused: u64,
    /// How often a real-time guest was busy for so long without a sign of work that others were
    /// released.
    pub stalls: u64,
    /// Whether it is held (best-effort) or holds (real-time).
    pub is_active: bool,
    /// For how long it was held, or held others.
    pub held: Duration,
    /// For how long it seemed to use its device. Of a real-time guest: for how long it held others,
    /// which is a little more than its work took. Of a best-effort guest: from the guest's own
    /// looks, 50 a second.
    pub busy: Duration,
    /// What is wrong with its page, if the part that the daemon wrote was changed.
    pub fault: Option<String>,
    /// How long its calls took on the host, if it has a profile. Of all of its devices together,
    /// info on one of them.
    pub times: Vec<TimesView>,
}

/// A guest's last spans, for traces.
#[derive(Clone, Debug)]
pub struct History {
    /// The guest.
    pub guest: GuestView,
    /// When it joined.
    pub joined: Time,
    /// How many spans have ended in which it was held, or held others.
    pub ended: u64,
    /// When the span began that hasn't ended.
    pub since: Option<Time>,
    /// Spans that ended, the last one last: the guest's own words.
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
        let Guest { who, uid, job, device, page, .. } = guest;
        let Counts { kernels, graphs, delayed, gates, graph_gates, breathers, refused, .. } =
            &page.counts;
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
            kernels: read(kernels),
            graphs: read(graphs),
            delayed: read(delayed),
            gates: read(gates).saturating_add(read(graph_gates)),
            breathers: read(breathers),
            refused: read(refused),
            stalls: guest.relay.as_ref().map_or(0, Relay::stalls),
            is_active: guest.is_active(),
            held,
            busy,
            fault: page.check(who).err(),
            times: page.times.read(),
        }
    }
}
