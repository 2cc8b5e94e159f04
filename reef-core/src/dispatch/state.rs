//! State of a pass: the scheduler and its plan, the real-time queue, the best-effort queues.

use crate::backend::command::Launch;
use crate::backend::device::Device;
use crate::backend::error::Error;
use crate::backend::info::{Caps, DeviceInfo, Seq};
use crate::dispatch::loss::Refusals;
use crate::dispatch::neighbours::Neighbourhood;
use crate::dispatch::queues::be_queue::BeQueue;
use crate::dispatch::queues::padding::{Padded, PaddingSource};
use crate::dispatch::queues::rt_queue::RtQueue;
use crate::scheduler::policy::{
    LaunchLimit, Plan, QueueView, RtEnd, RtTaskView, Scheduler, View, Width,
};
use crate::scheduler::steady::Steady;
use crate::vqueue::group::Group;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Interval after which a device that refused to stop or to restore best-effort work is asked
/// again.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// Interval at which the blocks of capped queues are measured again. A stop costs best-effort work
/// about 60 µs (H200), so this costs 0.06 %.
const RECAP_INTERVAL: Duration = Duration::from_millis(100);

/// Upper bound of the preemptions that are recorded before they are taken; later ones are dropped.
const MAX_RECORDED: usize = 1 << 16;

/// Counts of a dispatcher's events.
///
/// ```
/// use reef_core::scheduler::Reef;
/// use reef_core::{Cells, Device, Dispatcher, Task};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let dispatcher = Dispatcher::start(&device, Reef::default())?;
/// let before = dispatcher.stats();
/// dispatcher.real_time()?.run(&Task::new([Cells::new(&device, 4)?.append(7, 0)])?)?;
/// println!("{} preemptions", dispatcher.stats().since(before).preemptions);
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Preemptions of the best-effort queues.
    pub preemptions: u64,
    /// Real-time tasks that finished.
    pub rt_finished: u64,
    /// Real-time kernels that were to have best-effort blocks next to them; on a device that
    /// narrows queues, the number of times that it did.
    pub padded_launches: u64,
    /// Best-effort blocks that were planned next to real-time kernels; some came too late to run
    /// there, or found no room. 0 on a device that narrows queues.
    pub padded_blocks: u64,
    /// Number of times that the device refused to stop or to restore best-effort work, and was
    /// asked again.
    pub retries: u64,
    /// Best-effort queues that were abandoned, because what the device had of them did not end
    /// within [`Config::drain_timeout`](crate::Config::drain_timeout), a call hung, or the device
    /// ended them by a timeout of its own. Memory that they use on the device may stay there for
    /// ever.
    pub abandoned: u64,
}

impl Stats {
    /// Returns the counts since `before`; 0 where `before` is larger, which is of another
    /// dispatcher.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            preemptions: self.preemptions.saturating_sub(before.preemptions),
            rt_finished: self.rt_finished.saturating_sub(before.rt_finished),
            padded_launches: self.padded_launches.saturating_sub(before.padded_launches),
            padded_blocks: self.padded_blocks.saturating_sub(before.padded_blocks),
            retries: self.retries.saturating_sub(before.retries),
            abandoned: self.abandoned.saturating_sub(before.abandoned),
        }
    }
}

/// Counts as they are written: by passes, of which there is one at a time. Read at any time.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    preemptions: AtomicU64,
    rt_finished: AtomicU64,
    padded_launches: AtomicU64,
    padded_blocks: AtomicU64,
    retries: AtomicU64,
}

/// Adds to a count that one thread at a time writes.
fn add(count: &AtomicU64, more: u64) {
    if more > 0 {
        count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }
}

impl Counts {
    pub(super) fn add_finished(&self, tasks: u64) {
        add(&self.rt_finished, tasks);
    }

    pub(super) fn add_padded(&self, launches: u64, blocks: u64) {
        add(&self.padded_launches, launches);
        add(&self.padded_blocks, blocks);
    }

    pub(super) fn read(&self, abandoned: u64) -> Stats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Stats {
            preemptions: read(&self.preemptions),
            rt_finished: read(&self.rt_finished),
            padded_launches: read(&self.padded_launches),
            padded_blocks: read(&self.padded_blocks),
            retries: read(&self.retries),
            abandoned,
        }
    }
}

/// State of a pass.
#[derive(Debug)]
pub(crate) struct PassState<D: Device> {
    pub(super) scheduler: Box<dyn Scheduler>,
    pub(crate) rt: RtQueue<D>,
    pub(crate) queues: Vec<BeQueue<D>>,
    pub(super) views: Vec<QueueView>,
    /// The scheduler's views of real-time tasks that wait.
    rt_views: Vec<RtTaskView>,
    /// Tasks that ended since the view before.
    rt_ended: Vec<RtEnd>,
    pub(super) plan: Plan,
    pub(super) last_pass: Duration,
    pub(crate) counts: Arc<Counts>,
    /// Times at which best-effort work was preempted, while a caller traces it.
    pub(super) preempted: Option<Vec<Duration>>,
    /// The error for which no real-time work runs any more.
    pub(super) closed: Option<Error>,
    pub(super) refusals: Refusals,
    pub(super) neighbours: Neighbourhood,
    steady: Steady,
    /// Caps of best-effort queues next to real-time work that lasts.
    pub(super) caps: Option<Caps>,
    /// Time at which queues were capped last.
    pub(super) capped_at: Duration,
}

impl<D: Device> PassState<D> {
    pub(super) fn new(scheduler: Box<dyn Scheduler>, rt: RtQueue<D>) -> Self {
        Self {
            scheduler,
            rt,
            queues: Vec::new(),
            views: Vec::new(),
            rt_views: Vec::new(),
            rt_ended: Vec::new(),
            plan: Plan::default(),
            last_pass: Duration::ZERO,
            counts: Arc::default(),
            preempted: None,
            closed: None,
            refusals: Refusals::default(),
            neighbours: Neighbourhood::default(),
            steady: Steady::default(),
            caps: None,
            capped_at: Duration::ZERO,
        }
    }

    /// Ends real-time work for good. Best-effort work goes on, as an open plan lets it.
    pub(super) fn close(&mut self, error: Error) {
        self.rt.close(&error);
        self.closed.get_or_insert(error);
    }

    /// The device refused to stop or to restore best-effort work: have another pass try again.
    #[cold]
    pub(super) fn retry_soon(&mut self) {
        add(&self.counts.retries, 1);
        self.plan.wake_by(self.last_pass.saturating_add(RETRY_INTERVAL));
    }

    /// Holds neighbours if there is real-time work, before it is launched; releases them some time
    /// after the last.
    pub(super) fn hold_neighbours(&mut self) {
        let has_work = self.rt.running() > 0 || self.rt.waiting() > 0;
        if let Some(at) = self.neighbours.note(has_work, self.last_pass) {
            self.plan.wake_by(at);
        }
    }

    pub(super) fn note_preemption(&mut self) {
        add(&self.counts.preemptions, 1);
        if let Some(times) = self.preempted.as_mut().filter(|times| times.len() < MAX_RECORDED) {
            times.push(self.last_pass);
        }
    }

    /// Makes the view and lets the scheduler fill the plan.
    pub(super) fn update_view(&mut self, now: Duration, group: &Group<D>) {
        self.account(now);
        self.views.clear();
        self.views.extend(self.queues.iter_mut().map(BeQueue::view));
        self.rt_views.clear();
        self.rt_views.extend(self.rt.views(now));
        self.rt.take_ended(&mut self.rt_ended);
        let preempted = group.is_preempted() || group.is_capped();
        let view = View {
            rt_ended: &self.rt_ended,
            preempted,
            capped: group.is_capped() && !group.is_preempted(),
            has_parts: group.has_parts(),
            caps: group.caps(),
            quiesced: preempted && group.is_quiesced(),
            ..View::new(&self.rt_views, self.rt.running(), &self.views)
        };
        self.plan.open(&view);
        if self.closed.is_none() {
            self.scheduler.decide(now, &view, &mut self.plan);
        }
        if self.neighbours.have_real_time() {
            (self.plan.preempt, self.plan.pad) = (true, false);
        }
        // A task that the plan keeps waiting, as while a reserve is paid back, does not count:
        // queues that are capped because of it would never get what they are owed.
        let has_work = view.rt_running > 0 || !self.plan.start.is_empty();
        self.plan_cap(has_work, now, group);
        self.last_pass = now;
    }

    /// Has best-effort queues run capped, so that they needn't be stopped, next to real-time work
    /// that lasts; also in its short pauses, so that the next request finds them so.
    fn plan_cap(&mut self, has_work: bool, now: Duration, group: &Group<D>) {
        self.steady.note(has_work, now);
        let is_long = self.plan.pad && self.steady.is_long(now);
        self.caps = is_long.then(|| group.caps()).flatten().map(|caps| match self.plan.width {
            Width::Device => caps,
            Width::Units { percent } => {
                let blocks = u64::from(self.rt.units()) * u64::from(percent) / 100;
                caps.at_most(blocks.clamp(1, u64::from(u32::MAX)) as u32)
            }
            Width::Parts { best_effort, .. } if group.has_parts() => {
                // Capped launches would run one by one, and on all units.
                Caps { percent: best_effort.clamp(1, 100), ..Caps::all(caps.short) }
            }
            Width::Parts { .. } => caps,
        });
        self.rt.run_on(self.rt_percent(group));
        if self.caps.is_none() {
            return;
        }
        self.plan.preempt = true;
        if self.caps.is_some_and(Caps::is_adaptive) && group.is_capped() {
            self.plan.wake_by(self.capped_at.saturating_add(RECAP_INTERVAL));
        }
        if !has_work {
            // The device does not report the end of the pause.
            self.plan.wake_by(self.steady.ends());
        }
    }

    /// Returns the part of the units for real-time graphs: all if nothing is there to run next to
    /// them.
    fn rt_percent(&self, group: &Group<D>) -> u32 {
        match self.plan.width {
            Width::Parts { real_time, .. }
                if self.caps.is_some()
                    && group.has_parts()
                    && self.views.iter().any(QueueView::is_ready) =>
            {
                real_time.clamp(1, 100)
            }
            _ => 100,
        }
    }

    /// Returns whether capped queues have run for so long that their blocks may have changed. They
    /// are stopped then, which shows the length of their blocks.
    pub(super) fn are_caps_old(&self, now: Duration) -> bool {
        let is_adaptive = self.caps.is_some_and(Caps::is_adaptive);
        is_adaptive && now.saturating_sub(self.capped_at) >= RECAP_INTERVAL
    }

    /// Records the time since the last pass to the queues that could run in it, in equal parts.
    fn account(&mut self, now: Duration) {
        if self.plan.preempt {
            return;
        }
        let open = |(q, limit): &(&QueueView, &LaunchLimit)| {
            q.is_ready() && **limit != LaunchLimit::Closed
        };
        let running = self.views.iter().zip(&self.plan.limits).filter(open);
        let ids: Vec<u64> = running.map(|(q, _)| q.id).collect();
        let share = now.saturating_sub(self.last_pass) / ids.len().max(1) as u32;
        for queue in self.queues.iter_mut().filter(|queue| ids.contains(&queue.id)) {
            queue.served += share;
        }
    }

    pub(super) fn set_limits(&self) {
        for (be_queue, limit) in self.queues.iter().zip(&self.plan.limits) {
            be_queue.queue.shared().set_limit(match limit {
                LaunchLimit::Closed => 0,
                LaunchLimit::Until(Seq(end)) => *end,
                LaunchLimit::Open => u64::MAX,
            });
        }
    }
}

/// The best-effort queues as a source of padding: those of which no kernel runs.
#[derive(Debug)]
pub(super) struct Donors<'a, D: Device> {
    pub(super) group: &'a Group<D>,
    pub(super) queues: &'a mut [BeQueue<D>],
    pub(super) device: &'a D,
}

impl<D: Device> PaddingSource<D> for Donors<'_, D> {
    fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Takes blocks of the first queue that has some that fit. A queue whose next kernel the device
    /// makes no record of is left out: real-time work does not fail for it.
    fn pad(&mut self, rt: &Launch<D>, info: &DeviceInfo) -> Option<Padded<D>> {
        if !self.group.is_preempted() {
            return None;
        }
        let device = self.device;
        let mut queues =
            self.queues.iter_mut().filter(|be_queue| be_queue.queue.shared().is_quiesced());
        queues.find_map(|be_queue| be_queue.padding(device, rt, info).ok().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_since_subtracts_earlier_counts() {
        let stats = |n: u64| Stats {
            preemptions: n,
            rt_finished: 2 * n,
            padded_launches: 3 * n,
            padded_blocks: 4 * n,
            retries: 5 * n,
            abandoned: 6 * n,
        };
        assert_eq!(stats(7).since(stats(5)), stats(2));
        assert_eq!(stats(1).since(stats(5)), stats(0), "`before` is of another dispatcher");
    }
}
