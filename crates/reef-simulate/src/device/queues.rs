//! Best-effort clients of a device, each with a queue.

use crate::arrivals::{NEVER, Source, exponential};
use crate::device::gates::{GateState, Gates};
use crate::device::inference::Inference;
use crate::totals::Totals;
use rand_chacha::ChaCha8Rng;
use reef_core::Seq;
use reef_core::scheduler::{LaunchLimit, QueueView, TaskView};
use std::collections::VecDeque;
use std::time::Duration;

/// A best-effort client and its queue. One inference is one command.
#[derive(Debug, Clone)]
pub(crate) struct BeQueue {
    inference: Inference,
    source: Source,
    next: u64,
    /// Arrival times of the inferences that aren't finished.
    pending: VecDeque<u64>,
    completed: u64,
    /// Nanoseconds alone that are left of the first one, or, of an endless queue, that have been
    /// done.
    work: f64,
    /// Nanoseconds alone of the first one.
    whole: f64,
    done: f64,
    /// Progress of `work` in a nanosecond.
    rate: f64,
    /// Nanoseconds alone that are left of a kernel that runs on after its gate has closed. `None`:
    /// the gate is open.
    run_on: Option<f64>,
    /// Nanoseconds that a gate before each kernel costs.
    gate: f64,
    /// It always has the next inference, and the end of one is not reported.
    endless: bool,
}

impl BeQueue {
    pub(crate) fn new(inference: Inference, source: Source) -> Self {
        let (pending, completed, work, whole) = (VecDeque::new(), 0, 0.0, 0.0);
        let (done, rate, run_on) = (0.0, 0.0, None);
        Self {
            inference,
            source,
            next: NEVER,
            pending,
            completed,
            work,
            whole,
            done,
            rate,
            run_on,
            gate: 0.0,
            endless: false,
        }
    }

    fn is_ready(&self) -> bool {
        self.endless || !self.pending.is_empty()
    }

    fn may_run(&self, limit: LaunchLimit) -> bool {
        self.is_ready()
            && match limit {
                LaunchLimit::Closed => false,
                LaunchLimit::Until(Seq(end)) => self.completed < end,
                LaunchLimit::Open => true,
            }
    }

    /// Begins with the first inference.
    fn begin(&mut self, rng: &mut ChaCha8Rng) {
        self.whole = self.inference.work(rng);
        self.work = self.whole;
    }

    /// Nanoseconds alone until its pressure changes or it ends.
    fn until_change(&self) -> f64 {
        let rest = self.inference.peak.map_or(0.0, |peak| self.whole * (1.0 - peak.part));
        // Half a nanosecond: times are rounded to whole ones.
        if self.work - rest > 0.5 { self.work - rest } else { self.work.max(0.0) }
    }

    /// Follows its gate: a kernel that has begun ends, though the gate has closed. Lengths of
    /// kernels are exponential, so what is left of one has the same mean.
    fn follow(&mut self, gate: GateState, rng: &mut ChaCha8Rng) {
        self.gate = gate.cost;
        let mean = self.kernel();
        self.run_on = match self.run_on {
            _ if gate.is_open => None,
            None if self.is_ready() && mean > 0.0 => Some(exponential(rng, mean)),
            None => Some(0.0),
            left => left,
        };
    }

    /// Nanoseconds of a kernel alone: the mean. 0: unknown.
    fn kernel(&self) -> f64 {
        self.inference.kernels[usize::from(self.is_peak())]
    }

    /// Part of the time that gates leave to kernels.
    fn ungated(&self) -> f64 {
        let kernel = self.kernel();
        if kernel > 0.0 { kernel / (kernel + self.gate) } else { 1.0 }
    }

    fn is_peak(&self) -> bool {
        let peak = self.inference.peak;
        peak.is_some_and(|peak| self.work - self.whole * (1.0 - peak.part) > 0.5)
    }

    /// Pressure of what it runs now.
    fn pressure(&self) -> f64 {
        let Inference { peak, pressure, .. } = self.inference;
        peak.filter(|_| self.is_peak()).map_or(pressure, |peak| peak.pressure)
    }

    fn submitted(&self) -> u64 {
        self.completed + if self.endless { 1 } else { self.pending.len() as u64 }
    }

    fn view(&self, id: usize) -> QueueView {
        let mut view = QueueView::new(id as u64, Seq(self.completed), Seq(self.submitted()));
        let since = self.pending.front().copied().unwrap_or(0);
        let task = TaskView::new(Duration::from_nanos(since), Seq(self.completed + 1));
        view.task = self.is_ready().then_some(task);
        view.served = Duration::from_nanos(self.done as u64);
        view
    }
}

/// All best-effort queues of a device.
#[derive(Debug)]
pub(super) struct Queues {
    all: Vec<BeQueue>,
    views: Vec<QueueView>,
    /// The scheduler looks at tasks and positions.
    tracked: bool,
    pub(super) next_arrival: u64,
    pub(super) next_finish: u64,
    /// Pressure of those that run.
    pub(super) pressure: f64,
}

impl Queues {
    /// `tracked`: the scheduler may decide otherwise because an inference has ended.
    pub(super) fn new(mut all: Vec<BeQueue>, tracked: bool, rng: &mut ChaCha8Rng) -> Self {
        for queue in &mut all {
            let is_even = queue.inference.peak.is_none() && queue.inference.kernels[0] == 0.0;
            queue.endless = !tracked && is_even && queue.source.answered(0) == Some(0);
            queue.next = if queue.endless { NEVER } else { queue.source.next(rng) };
        }
        let next_arrival = all.iter().map(|queue| queue.next).min().unwrap_or(NEVER);
        let views = all.iter().enumerate().map(|(id, queue)| queue.view(id)).collect();
        Self { all, views, tracked, next_arrival, next_finish: NEVER, pressure: 0.0 }
    }

    pub(super) fn views(&self) -> &[QueueView] {
        &self.views
    }

    /// Takes in what arrives now.
    pub(super) fn arrive(&mut self, now: u64, rng: &mut ChaCha8Rng, totals: &mut Totals) {
        let mut next = NEVER;
        for queue in &mut self.all {
            while queue.next <= now {
                if queue.pending.is_empty() {
                    queue.begin(rng);
                }
                queue.pending.push_back(queue.next);
                totals.be_arrivals += 1;
                let closed = queue.source.answered(now).is_some();
                queue.next = if closed { NEVER } else { queue.source.next(rng) };
            }
            next = next.min(queue.next);
        }
        self.next_arrival = next;
        self.run_pass();
    }

    /// Progress of all from `from` until `to`.
    pub(super) fn advance(&mut self, from: u64, to: u64) {
        let time = to.saturating_sub(from) as f64;
        for queue in &mut self.all {
            queue.work -= time * queue.rate;
            queue.done += time * queue.rate;
            queue.run_on = queue.run_on.map(|left| left - time * queue.rate);
        }
    }

    /// Returns the number of queues that would run at these limits.
    pub(super) fn runnable(&self, limits: &[LaunchLimit]) -> u64 {
        self.all.iter().zip(limits).map(|(queue, &limit)| u64::from(queue.may_run(limit))).sum()
    }

    /// Lets the queues follow their gates.
    pub(super) fn follow(&mut self, gates: &Gates, rng: &mut ChaCha8Rng) {
        for (queue, gate) in self.all.iter_mut().zip(gates.states()) {
            queue.follow(gate, rng);
        }
    }

    /// Sets the rates next to real-time work of the pressure `rt_pressure`; `factor` is the part of
    /// their own that they keep, 0 if they are stopped. They make progress from `start` on.
    pub(super) fn set_rates(
        &mut self,
        limits: &[LaunchLimit],
        rt_pressure: f64,
        factor: f64,
        start: u64,
    ) {
        let runs = |queue: &BeQueue, limit| {
            let runs_on = queue.is_ready() && queue.run_on.is_some_and(|left| left > 0.5);
            factor > 0.0 && (queue.may_run(limit) || runs_on)
        };
        let each = self.all.iter().zip(limits).filter(|(queue, limit)| runs(queue, **limit));
        self.pressure = each.map(|(queue, _)| queue.pressure()).sum();
        self.next_finish = NEVER;
        for (queue, &limit) in self.all.iter_mut().zip(limits) {
            queue.rate = 0.0;
            if !runs(queue, limit) {
                continue;
            }
            let others = self.pressure - queue.pressure() + rt_pressure;
            queue.rate = factor * queue.ungated() / queue.inference.slowdown(others);
            if !queue.endless {
                let work = queue.until_change().min(queue.run_on.unwrap_or(f64::INFINITY));
                let left = (work / queue.rate + 0.5) as u64;
                let finish = start.saturating_add(left);
                self.next_finish = self.next_finish.min(finish);
            }
        }
    }

    /// Ends the inferences that have no work left.
    pub(super) fn finish(&mut self, now: u64, rng: &mut ChaCha8Rng, totals: &mut Totals) {
        for queue in &mut self.all {
            // Half a nanosecond: times are rounded to whole ones.
            if queue.endless || queue.pending.is_empty() || queue.work > 0.5 {
                continue;
            }
            queue.pending.pop_front();
            queue.completed += 1;
            totals.be_finished += 1;
            if let Some(next) = queue.source.answered(now) {
                queue.next = next;
                self.next_arrival = self.next_arrival.min(next);
            }
            if !queue.pending.is_empty() {
                queue.begin(rng);
            }
        }
        self.run_pass();
    }

    fn run_pass(&mut self) {
        for (id, (queue, view)) in self.all.iter().zip(&mut self.views).enumerate() {
            *view = queue.view(id);
        }
    }

    /// Brings the views up to date for a scheduler that reads them.
    pub(super) fn note_served(&mut self) {
        if self.tracked {
            for (queue, view) in self.all.iter().zip(&mut self.views) {
                view.served = Duration::from_nanos(queue.done as u64);
            }
        }
    }

    /// Returns what all queues have done, in nanoseconds alone.
    pub(super) fn done(&self) -> u64 {
        self.all.iter().map(|queue| queue.done as u64).sum()
    }

    /// Counts what was done, and what isn't finished.
    pub(super) fn close(&self, totals: &mut Totals) {
        for queue in &self.all {
            if queue.endless {
                let finished = (queue.done / queue.inference.alone) as u64;
                totals.be_finished += finished;
                totals.be_arrivals += finished + 1;
            }
            totals.be_left += queue.submitted() - queue.completed;
            totals.be_work += queue.done as u64;
        }
    }
}
