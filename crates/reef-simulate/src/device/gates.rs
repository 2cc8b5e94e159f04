//! Gates of unmodified programs: what passes next to busy real-time clients, and when.
//!
//! The shares, windows and the controller of a target are the daemon's own, from [`reef_guest`].
//! Each real-time client with work has windows for each queue. A queue runs if those of all such
//! clients are open.

use crate::arrivals::NEVER;
use crate::profile::DeviceProfile;
use reef_core::scheduler::LaunchLimit;
use reef_guest::colocation::{Allowance, Controller, Percent, Slo, Windows};
use reef_guest::page::Iteration;

/// Time without work after which a real-time client holds no queue, in nanoseconds.
const MAX_GAP: u64 = 200_000;
/// Time of this kind while its iterations are measured alone, in nanoseconds.
const MAX_QUIET: u64 = 20_000_000;

/// Gates of a device's queues.
#[derive(Debug)]
pub(crate) struct Gates {
    rt_windows: Vec<RtWindows>,
    queues: Vec<Gate>,
    limits: Vec<LaunchLimit>,
    /// Nanoseconds of a period, and those by which a queue starts and ends after its gate.
    period: u64,
    open: u64,
    run_on: u64,
    /// Nanoseconds that the gate before each kernel costs.
    cost: f64,
}

/// State of a queue's gate.
#[derive(Clone, Copy, Debug)]
pub(super) struct GateState {
    pub(super) is_open: bool,
    /// Nanoseconds that the gate before each kernel costs: 0 unless the queue runs in windows.
    pub(super) cost: f64,
}

/// Windows and controller of one real-time client.
#[derive(Debug)]
struct RtWindows {
    controller: Option<Controller>,
    windows: Vec<Windows>,
    /// Time at which it last had work.
    busy: Option<u64>,
}

/// Gate of one queue.
#[derive(Debug)]
struct Gate {
    allowance: Allowance,
    /// Part of the time that passes now, in parts per million.
    duty: u32,
    is_open: bool,
    /// State of the gate before this step.
    was_open: bool,
    runs: bool,
    /// A client with work lets less than all pass.
    in_windows: bool,
    /// Time at which `runs` follows `is_open`.
    change: u64,
}

impl Gates {
    /// Gates next to real-time clients with these targets, for queues with these allowances.
    pub(crate) fn new(device: &DeviceProfile, slos: &[Option<Slo>], queues: &[Allowance]) -> Self {
        let nanos = |micros: f64| (micros * 1e3) as u64;
        let period = nanos(device.period_us);
        let windows = |slo: &Option<Slo>| RtWindows {
            controller: slo.filter(|_| !queues.is_empty()).map(|slo| Controller::new(slo, 0)),
            windows: queues.iter().map(|_| Windows::new(period, 0)).collect(),
            busy: None,
        };
        Self {
            rt_windows: slos.iter().map(windows).collect(),
            queues: queues.iter().map(Gate::new).collect(),
            limits: vec![LaunchLimit::Open; queues.len()],
            period,
            open: nanos(device.open_us),
            run_on: nanos(device.run_on_us),
            cost: device.gate_us * 1e3,
        }
    }

    /// The queues that run: open or closed.
    pub(super) fn limits(&self) -> &[LaunchLimit] {
        &self.limits
    }

    /// The state of each queue's gate.
    pub(super) fn states(&self) -> impl Iterator<Item = GateState> {
        self.queues.iter().map(|gate| GateState {
            is_open: gate.runs,
            cost: if gate.in_windows { self.cost } else { 0.0 },
        })
    }

    /// Opens and closes gates. `tasks` has the number of tasks of each real-time client; `ended` is
    /// the client of a task that has just ended, and its arrival; `work` is what the queues have
    /// done. Returns the time of the next step.
    pub(super) fn step(
        &mut self,
        now: u64,
        tasks: &[u32],
        ended: Option<(usize, u64)>,
        work: u64,
    ) -> u64 {
        let applied = self.queues.iter().map(|gate| gate.duty).max().unwrap_or(0);
        let mut until = NEVER;
        self.queues.iter_mut().for_each(|gate| gate.begin());
        for (at, windows) in self.rt_windows.iter_mut().enumerate() {
            let since = ended.filter(|(client, _)| *client == at).map(|(_, since)| since);
            let is_busy = tasks.get(at).is_some_and(|tasks| *tasks > 0);
            let found = windows.control(now, since, applied, work);
            let held = windows.held_until(now, is_busy, since.is_some());
            let next = windows.step(now, found, held > now, &mut self.queues);
            until = until.min(next);
            if held > now {
                let controlled = windows.controller.as_ref().map_or(NEVER, |_| now + self.period);
                until = until.min(held).min(controlled);
            }
        }
        for (gate, limit) in self.queues.iter_mut().zip(&mut self.limits) {
            until = until.min(gate.end(now, self.open, self.run_on));
            *limit = if gate.runs { LaunchLimit::Open } else { LaunchLimit::Closed };
        }
        until
    }
}

impl RtWindows {
    /// Lets the controller see an iteration that ended now, and returns the part that it has found.
    fn control(&mut self, now: u64, since: Option<u64>, applied: u32, work: u64) -> Option<u32> {
        let controller = self.controller.as_mut()?;
        let iteration = since.map(|since| Iteration { end: now, length: now - since, kind: 1 });
        controller.note(iteration.as_slice(), now, applied, work);
        Some(controller.duty())
    }

    /// Returns the time until which it holds queues: never ago, or without end.
    fn held_until(&mut self, now: u64, is_busy: bool, has_ended: bool) -> u64 {
        if is_busy || has_ended {
            self.busy = Some(now);
        }
        if is_busy {
            return NEVER;
        }
        let is_silent = self.controller.as_ref().is_some_and(|all| all.is_silent(now));
        let gap = if is_silent { MAX_QUIET } else { MAX_GAP };
        self.busy.map_or(0, |busy| busy + gap)
    }

    /// Makes a step of each queue's windows. Returns the time of the next one.
    fn step(&mut self, now: u64, found: Option<u32>, is_held: bool, queues: &mut [Gate]) -> u64 {
        let mut until = NEVER;
        for (windows, gate) in self.windows.iter_mut().zip(queues) {
            let duty = gate.allowance.duty(found);
            let step = windows.step(now, duty, is_held);
            until = until.min(step.until);
            if is_held {
                gate.duty = duty;
                gate.is_open &= step.is_open;
                gate.in_windows |= duty < Percent::ALL.parts();
            }
        }
        until
    }
}

impl Gate {
    fn new(allowance: &Allowance) -> Self {
        let allowance = *allowance;
        let (is_open, was_open, runs, in_windows) = (true, true, true, false);
        Self { allowance, duty: 0, is_open, was_open, runs, in_windows, change: NEVER }
    }

    /// Opens it before all clients with work have their say.
    fn begin(&mut self) {
        self.was_open = self.is_open;
        (self.is_open, self.in_windows) = (true, false);
    }

    /// Follows the gate, later by what it costs. Returns the time of the next change.
    fn end(&mut self, now: u64, open: u64, run_on: u64) -> u64 {
        if self.is_open != self.was_open {
            self.change = now + if self.is_open { open } else { run_on };
        }
        if self.change <= now {
            (self.runs, self.change) = (self.is_open, NEVER);
        }
        self.change
    }
}
