//! The event loop of a device.

use crate::arrivals::NEVER;
use crate::device::gates::Gates;
use crate::device::group::{Group, Width};
use crate::device::queues::{BeQueue, Queues};
use crate::device::tasks::{RtClient, Tasks};
use crate::profile::DeviceProfile;
use crate::totals::Totals;
use rand_chacha::ChaCha8Rng;
use reef_core::PreemptLevel;
use reef_core::scheduler::{Plan, Scheduler, Steady, View};
use std::time::Duration;

/// Costs of stopping and restoring, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs {
    stop: u64,
    quiesce: u64,
    resume: u64,
    capped_kept: f64,
    capped_pressure: f64,
}

impl Costs {
    pub(crate) fn new(device: &DeviceProfile, level: PreemptLevel) -> Self {
        let nanos = |micros: f64| (micros * 1e3) as u64;
        let all = level == PreemptLevel::All;
        Self {
            stop: if all { nanos(device.stop_us) } else { 0 },
            quiesce: nanos(if all { device.quiesce_us } else { device.run_out_us }),
            resume: nanos(device.resume_us),
            capped_kept: device.capped_kept,
            capped_pressure: device.capped_pressure,
        }
    }
}

/// Schedulers whose plans don't depend on positions and tasks of best-effort queues: when an
/// inference ends there is nothing to decide. Any other scheduler is asked.
const BLIND: [&str; 6] = ["reef", "reset", "rt-only", "stream-priority", "streams", "wait-based"];

/// A device with its clients and scheduler.
#[derive(Debug)]
pub(crate) struct Device {
    scheduler: Box<dyn Scheduler>,
    costs: Costs,
    rng: ChaCha8Rng,
    tasks: Tasks,
    queues: Queues,
    group: Group,
    /// Of unmodified programs, in place of stops.
    gates: Option<Gates>,
    steady: Steady,
    plan: Plan,
    now: u64,
    /// Time of the next decision if nothing happens before.
    wake: u64,
}

impl Device {
    pub(crate) fn new(
        scheduler: Box<dyn Scheduler>,
        costs: Costs,
        mut rng: ChaCha8Rng,
        clients: Vec<RtClient>,
        queues: Vec<BeQueue>,
        gates: Option<Gates>,
    ) -> Self {
        let tasks = Tasks::new(clients, &mut rng);
        let tracked = !BLIND.contains(&scheduler.name());
        let queues = Queues::new(queues, tracked, &mut rng);
        let (group, steady, plan) = (Group::new(), Steady::default(), Plan::default());
        Self { scheduler, costs, rng, tasks, queues, group, gates, steady, plan, now: 0, wake: 0 }
    }

    /// Runs until `end` and adds to `totals`.
    pub(crate) fn run(mut self, end: u64, totals: &mut Totals) {
        loop {
            let next = self.next_event();
            if next >= end {
                break;
            }
            self.advance(next, totals);
            self.take_events(totals);
            self.decide(totals);
            self.pass();
            self.set_rates();
        }
        self.advance(end, totals);
        self.tasks.close(end, totals);
        self.queues.close(totals);
        totals.devices_used += 1;
    }

    fn next_event(&self) -> u64 {
        let rt = self.tasks.next_arrival.min(self.tasks.next_finish);
        let be = self.queues.next_arrival.min(self.queues.next_finish);
        rt.min(be).min(self.wake)
    }

    fn advance(&mut self, to: u64, totals: &mut Totals) {
        if self.tasks.running() > 0 || self.queues.pressure > 0.0 {
            totals.busy += to - self.now;
        }
        self.tasks.advance(self.now, to);
        self.queues.advance(self.now.max(self.group.resumed), to);
        self.now = to;
    }

    fn take_events(&mut self, totals: &mut Totals) {
        let now = self.now;
        self.tasks.finish(now, totals);
        if self.queues.next_finish <= now {
            self.queues.finish(now, &mut self.rng, totals);
        }
        if self.tasks.next_arrival <= now {
            self.tasks.arrive(now, &mut self.rng, totals);
        }
        if self.queues.next_arrival <= now {
            self.queues.arrive(now, &mut self.rng, totals);
        }
    }

    /// Asks the scheduler and applies its plan, in the dispatcher's order: stop, start, restore.
    fn decide(&mut self, totals: &mut Totals) {
        self.queues.note_served();
        let mut view = View::new(self.tasks.views(), self.tasks.running(), self.queues.views());
        view.preempted = self.group.width != Width::Full;
        view.capped = self.group.width == Width::Capped;
        view.quiesced = self.group.width == Width::Stopped && self.now >= self.group.quiesced;
        self.plan.open(&view);
        self.scheduler.decide(Duration::from_nanos(self.now), &view, &mut self.plan);
        totals.decisions += 1;
        self.wake = self.plan.wake.map_or(NEVER, nanos);
        let want = self.planned_width();
        self.step(want, totals);
        self.tasks.start(&self.plan.start);
        if self.group.width != want || (self.tasks.running() == 0 && self.tasks.has_work()) {
            self.wake_by(self.group.quiesced);
        }
        self.wake = if self.wake <= self.now { NEVER } else { self.wake };
    }

    /// Opens and closes the gates.
    fn pass(&mut self) {
        let ended = self.tasks.take_ended();
        let Some(gates) = &mut self.gates else { return };
        let until = gates.step(self.now, self.tasks.counts(), ended, self.queues.done());
        self.queues.follow(gates, &mut self.rng);
        self.wake_by(until);
    }

    fn wake_by(&mut self, at: u64) {
        if at > self.now {
            self.wake = self.wake.min(at);
        }
    }

    /// Returns the width at which the plan wants best-effort work to run.
    fn planned_width(&mut self) -> Width {
        let has_work = self.tasks.running() > 0 || !self.plan.start.is_empty();
        let now = Duration::from_nanos(self.now);
        self.steady.note(has_work, now);
        if self.plan.pad && self.costs.capped_kept > 0.0 && self.steady.is_long(now) {
            if !has_work {
                self.wake_by(nanos(self.steady.ends()));
            }
            return Width::Capped;
        }
        if self.plan.preempt { Width::Stopped } else { Width::Full }
    }

    fn step(&mut self, want: Width, totals: &mut Totals) {
        if self.group.width == want {
            return;
        }
        let was_full = self.group.width == Width::Full;
        let stopped = self.queues.runnable(&self.plan.limits);
        let quiesce = if stopped > 0 { self.costs.quiesce } else { 0 };
        if self.group.step(want, self.now, quiesce, self.costs.resume) {
            let held = self.now + self.costs.stop * stopped;
            self.tasks.held_until = self.tasks.held_until.max(held);
            totals.preemptions += u64::from(was_full && self.plan.preempt && stopped > 0);
        }
    }

    fn set_rates(&mut self) {
        let (factor, part) = match self.group.width {
            Width::Full => (1.0, 1.0),
            Width::Capped => (self.costs.capped_kept, self.costs.capped_pressure),
            Width::Stopped => (0.0, 0.0),
        };
        let first = self.tasks.first();
        // The throughput of capped work was measured next to real-time work.
        let capped = self.group.width == Width::Capped;
        let rt_pressure = first.filter(|_| !capped).map_or(0.0, |task| task.pressure);
        let start = self.now.max(self.group.resumed);
        let limits = self.gates.as_ref().map_or(&self.plan.limits[..], Gates::limits);
        self.queues.set_rates(limits, rt_pressure, factor, start);
        let pressure = self.queues.pressure * part;
        self.tasks.set_slowdown(self.now, first.map_or(1.0, |task| task.slowdown(pressure)));
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos().min(u128::from(NEVER)) as u64
}
