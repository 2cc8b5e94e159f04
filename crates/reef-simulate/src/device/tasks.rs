//! Real-time clients and tasks of a device.

use crate::arrivals::{NEVER, Source};
use crate::device::inference::Inference;
use crate::totals::Totals;
use rand_chacha::ChaCha8Rng;
use reef_core::scheduler::RtTaskView;
use std::collections::VecDeque;
use std::time::Duration;

/// A real-time client.
#[derive(Debug)]
pub(crate) struct RtClient {
    pub(crate) inference: Inference,
    pub(crate) source: Source,
    /// Nanoseconds after the arrival, or never.
    pub(crate) deadline: u64,
    pub(crate) priority: i32,
    /// The next arrival.
    pub(crate) next: u64,
}

#[derive(Debug, Clone, Copy)]
struct Task {
    since: u64,
    deadline: u64,
    client: u32,
    /// Nanoseconds alone on the device that are left.
    work: f64,
}

/// Tasks that wait, and those that the device has: they run one after the other.
#[derive(Debug)]
pub(super) struct Tasks {
    clients: Vec<RtClient>,
    waiting: Vec<Option<Task>>,
    views: Vec<RtTaskView>,
    running: VecDeque<Task>,
    /// The next arrival of any client.
    pub(super) next_arrival: u64,
    /// Time at which the first one that runs finishes, if nothing changes.
    pub(super) next_finish: u64,
    /// Nothing runs before this: best-effort work is being stopped.
    pub(super) held_until: u64,
    slowdown: f64,
    /// Tasks of each client, waiting or running.
    counts: Vec<u32>,
    /// Client and arrival of the task that ended at the last event.
    ended: Option<(usize, u64)>,
}

impl Tasks {
    pub(super) fn new(mut clients: Vec<RtClient>, rng: &mut ChaCha8Rng) -> Self {
        clients.iter_mut().for_each(|client| client.next = client.source.next(rng));
        let (waiting, views, running) = Default::default();
        let next_arrival = clients.iter().map(|client| client.next).min().unwrap_or(NEVER);
        let (next_finish, held_until, slowdown) = (NEVER, 0, 1.0);
        let (counts, ended) = (vec![0; clients.len()], None);
        Self {
            clients,
            waiting,
            views,
            running,
            next_arrival,
            next_finish,
            held_until,
            slowdown,
            counts,
            ended,
        }
    }

    pub(super) fn views(&self) -> &[RtTaskView] {
        &self.views
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns whether there are some, waiting or running.
    pub(super) fn has_work(&self) -> bool {
        !self.running.is_empty() || !self.waiting.is_empty()
    }

    /// Returns the number of tasks of each client.
    pub(super) fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Takes the client and the arrival of a task that has just ended.
    pub(super) fn take_ended(&mut self) -> Option<(usize, u64)> {
        self.ended.take()
    }

    /// The network of the task that runs.
    pub(super) fn first(&self) -> Option<Inference> {
        let first = self.running.front()?;
        Some(self.clients[first.client as usize].inference)
    }

    /// Takes in what arrives now.
    pub(super) fn arrive(&mut self, now: u64, rng: &mut ChaCha8Rng, totals: &mut Totals) {
        let mut next = NEVER;
        for (number, client) in self.clients.iter_mut().enumerate() {
            while client.next <= now {
                let deadline = client.next.saturating_add(client.deadline);
                let work = client.inference.work(rng);
                let task = Task { since: client.next, deadline, client: number as u32, work };
                self.waiting.push(Some(task));
                self.counts[number] += 1;
                let mut view = RtTaskView::new(Duration::from_nanos(task.since));
                view.deadline = (deadline != NEVER).then(|| Duration::from_nanos(deadline));
                (view.priority, view.account) = (client.priority, number as u64);
                self.views.push(view);
                totals.rt_arrivals += 1;
                let closed = client.source.answered(now).is_some();
                client.next = if closed { NEVER } else { client.source.next(rng) };
            }
            next = next.min(client.next);
        }
        self.next_arrival = next;
    }

    /// Starts tasks that wait, by position. Positions that are out of range or come twice are
    /// skipped.
    pub(super) fn start(&mut self, positions: &[usize]) {
        for &at in positions {
            self.running.extend(self.waiting.get_mut(at).and_then(Option::take));
        }
        if positions.is_empty() {
            return;
        }
        let mut waits = self.waiting.iter().map(Option::is_some);
        self.views.retain(|_| waits.next().unwrap_or(false));
        self.waiting.retain(Option::is_some);
    }

    /// Progress of the first task from `from` until `to`.
    pub(super) fn advance(&mut self, from: u64, to: u64) {
        if let Some(first) = self.running.front_mut() {
            first.work -= to.saturating_sub(from.max(self.held_until)) as f64 / self.slowdown;
        }
    }

    /// Sets the rate of the first task, and when it finishes at that.
    pub(super) fn set_slowdown(&mut self, now: u64, slowdown: f64) {
        self.slowdown = slowdown;
        self.next_finish = self.running.front().map_or(NEVER, |first| {
            let left = (first.work.max(0.0) * slowdown + 0.5) as u64;
            now.max(self.held_until).saturating_add(left)
        });
    }

    /// Ends the first task if it is time.
    pub(super) fn finish(&mut self, now: u64, totals: &mut Totals) {
        if self.next_finish > now {
            return;
        }
        let Some(task) = self.running.pop_front() else { return };
        totals.note(now - task.since, now <= task.deadline);
        self.counts[task.client as usize] -= 1;
        self.ended = Some((task.client as usize, task.since));
        let client = &mut self.clients[task.client as usize];
        if let Some(next) = client.source.answered(now) {
            client.next = next;
            self.next_arrival = self.next_arrival.min(next);
        }
    }

    /// Counts what isn't finished.
    pub(super) fn close(&self, end: u64, totals: &mut Totals) {
        let left = self.waiting.iter().flatten().chain(&self.running);
        for task in left {
            totals.rt_left += 1;
            totals.rt_left_late += u64::from(task.deadline < end);
        }
    }
}
