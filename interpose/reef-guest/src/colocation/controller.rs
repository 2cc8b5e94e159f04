//! Controller: finds the part of the time that keeps a real-time program's latency at its target.
//!
//! It compares *iterations*: from a thread's first launch to the end of its wait for the device.
//! Iterations with the same number of launches are of one kind. At times nothing passes, and the
//! iterations of each kind are measured alone. In between each iteration is late or not: an
//! iteration is late if it is longer than the target times what few iterations of its kind exceed
//! alone ([`Baseline`]). A late iteration makes the part smaller, any other iteration makes it
//! larger by so much less that both are in balance if one iteration in a hundred is late. The
//! balance holds the 99th percentile at the target, whatever iterations depend on apart from the
//! part. Each kind has a balance of its own besides that of all: rare iterations that are always
//! late bound the part, although they are few.

use super::share::Slo;
use crate::limit::quantity::WHOLE;
use crate::page::iterations::Iteration;
use reef_latency::{Baseline, LATE_SHARE, Verdict, quantile};

/// Iterations of the first measurement alone, and of later ones. Those are short and frequent,
/// because the host's speed changes as well.
const FIRST_ITERATIONS: usize = 256;
const ALONE_ITERATIONS: usize = 96;
/// Longest time of a measurement with [`FEW_ITERATIONS`], in nanoseconds.
const MAX_ALONE: u64 = 500_000_000;
/// Time from one measurement alone to the next, at first and at most. It doubles.
const MIN_INTERVAL: u64 = 1_000_000_000;
const MAX_INTERVAL: u64 = 4_000_000_000;
/// Iterations by which growth is measured. It is shown, and decides nothing.
const SHOWN_ITERATIONS: usize = 256;
const FEW_ITERATIONS: usize = 16;
/// Measurements in sequence whose median is outside of the middle nine tenths of the kept
/// iterations, after which those are dropped: the program has changed.
const MAX_ODD: u32 = 4;
/// Part of the time, in parts per million, at which it starts, and which it tries after a pause.
pub const MAX_PROBE: u32 = 50_000;
/// [`MAX_PROBE`] as a part of one.
const PROBE: f64 = MAX_PROBE as f64 / WHOLE as f64;
/// Least part that is not a pause.
const MIN_PART: f64 = 0.005;
/// Largest part by that which has really passed.
const MAX_RISE: f64 = 1.5;
/// Fall of the part's logarithm for a late iteration.
const FALL: f64 = 0.05;
/// Rise of the part's logarithm for any other iteration, right after a late one. It doubles after
/// as many iterations as have one late iteration, and so on in equal steps, up to [`MAX_HASTE`]
/// times. Then a late iteration in a hundred, at random, balances it.
const RISE: f64 = FALL * LATE_SHARE / 2.0;
const MAX_HASTE: f64 = 10.0;
/// Share of late iterations, of a kind that has a balance of its own, that is allowed at most:
/// there were 80 iterations alone or more.
const KNOWN_SHARE: f64 = 0.05;
/// Iterations within which the next late one makes the part fall faster: by half, up to eight
/// times.
const SOON: f64 = 4.0;
/// Iterations that seem to have been on time before the first one.
const FIRST_RUN: u32 = 400;
/// Pauses after a part that was too large however small, in nanoseconds. They double.
const MIN_PAUSE: u64 = 1_000_000_000;
const MAX_PAUSE: u64 = 32_000_000_000;

/// Part of the time that iterations allow.
#[derive(Clone, Copy, Debug)]
struct Balance {
    /// 0 to 1.
    part: f64,
    /// Iterations since the last late one.
    run: u32,
    /// Haste of the fall: late iterations soon after each other.
    fall: f64,
}

/// Balance of one kind of iterations.
#[derive(Debug)]
struct Bound {
    kind: u32,
    balance: Balance,
    /// It had an iteration since the last measurement alone.
    is_seen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Nothing passes, and iterations alone are measured, since this time.
    Alone(u64),
    /// The part passes, since this time, until that of the next measurement alone.
    Colocated(u64),
    /// Nothing passes until this time, because the least part was too much.
    Pause(u64),
}

/// Controller of one real-time program.
#[derive(Debug)]
pub struct Controller {
    target: f64,
    state: State,
    alone: Baseline,
    /// Last iterations, each divided by what few of its kind exceed alone, since growth was
    /// measured.
    shown: Vec<f64>,
    /// Of all iterations, and of each kind that was seen lately.
    all: Balance,
    bounds: Vec<Bound>,
    /// Last measured growth: 1 is alone.
    growth: f64,
    interval: u64,
    next_alone: u64,
    pause: u64,
}

impl Controller {
    /// Creates a controller that begins with a measurement alone at this time, in nanoseconds.
    pub fn new(target: Slo, now: u64) -> Self {
        Self {
            target: target.ratio(),
            state: State::Alone(now),
            alone: Baseline::new(MAX_ODD, 0.0),
            shown: Vec::new(),
            all: Balance::at(PROBE),
            bounds: Vec::new(),
            growth: 1.0,
            interval: MIN_INTERVAL,
            next_alone: now,
            pause: MIN_PAUSE,
        }
    }

    /// Returns the part of the time that passes now, in parts per million.
    pub fn duty(&self) -> u32 {
        match self.state {
            State::Colocated(_) => (self.part() * f64::from(WHOLE)) as u32,
            State::Alone(_) | State::Pause(_) => 0,
        }
    }

    fn part(&self) -> f64 {
        self.bounds.iter().fold(self.all.part, |part, bound| part.min(bound.balance.part))
    }

    /// Returns whether iterations are measured alone, so that nothing may pass.
    pub fn is_alone(&self) -> bool {
        matches!(self.state, State::Alone(_))
    }

    /// Returns the last measured latency as a multiple of the latency alone, at the 99th
    /// percentile.
    pub fn growth(&self) -> f64 {
        self.growth
    }

    /// Notes iterations that have ended, in order, and the time. `applied` is the part that really
    /// passed, in parts per million: it may be bounded otherwise.
    pub fn note(&mut self, iterations: &[Iteration], now: u64, applied: u32) {
        // What has not passed is not known to be harmless.
        let most = (MAX_RISE * PROBE.max(f64::from(applied) / f64::from(WHOLE))).min(1.0);
        iterations.iter().for_each(|iteration| self.note_iteration(iteration, most));
        match self.state {
            State::Alone(since) => self.end_alone(since, now),
            State::Colocated(_) => self.end_colocation(now),
            State::Pause(until) if now >= until => self.begin_alone(now),
            State::Pause(_) => {}
        }
    }

    fn note_iteration(&mut self, iteration: &Iteration, most: f64) {
        let (begin, length) = (iteration.begin(), iteration.length as f64);
        match self.state {
            // Iterations that began before belong to the state before.
            State::Alone(since) if begin >= since => self.alone.note(iteration.kind.into(), length),
            State::Colocated(since) if begin >= since => {
                let verdict = self.alone.verdict(iteration.kind.into(), length, self.target);
                verdict.into_iter().for_each(|verdict| self.adapt(iteration.kind, verdict, most));
            }
            _ => {}
        }
    }

    fn begin_alone(&mut self, now: u64) {
        self.bounds.retain(|bound| bound.is_seen);
        self.bounds.iter_mut().for_each(|bound| bound.is_seen = false);
        self.state = State::Alone(now);
    }

    /// Ends a measurement alone if it has enough iterations, or lasts for too long.
    fn end_alone(&mut self, since: u64, now: u64) {
        let (iterations, is_late) = (self.alone.fresh(), now.saturating_sub(since) >= MAX_ALONE);
        let enough = if self.alone.is_unknown() { FIRST_ITERATIONS } else { ALONE_ITERATIONS };
        if iterations < enough && !(is_late && iterations >= FEW_ITERATIONS) {
            if is_late && iterations == 0 {
                self.state = State::Pause(now + MIN_PAUSE); // nothing to measure
            }
            return;
        }
        self.alone.settle();
        if self.alone.is_odd() {
            self.interval = MIN_INTERVAL;
        }
        self.next_alone = now + self.interval;
        self.interval = (self.interval * 2).min(MAX_INTERVAL);
        self.shown.clear();
        self.state = State::Colocated(now);
    }

    /// Sets the part by one iteration. It is at most `most`, or as it was.
    fn adapt(&mut self, kind: u32, verdict: Verdict, most: f64) {
        self.shown.push(verdict.relative);
        let part = self.part();
        if part > 2.0 * PROBE {
            self.pause = MIN_PAUSE;
        }
        self.all.note(verdict, most);
        if verdict.share > KNOWN_SHARE {
            return; // of a limit that is chance
        }
        let known = self.bounds.iter().position(|bound| bound.kind == kind);
        let at = known.unwrap_or(self.bounds.len());
        if known.is_none() {
            self.bounds.push(Bound { kind, balance: Balance::at(1.0), is_seen: true });
        }
        let bound = &mut self.bounds[at];
        bound.is_seen = true;
        if verdict.is_late {
            bound.balance.part = bound.balance.part.min(part);
        }
        bound.balance.note(verdict, most);
    }

    /// Measures growth, and ends this state if it is time to, or if the least part is too much.
    fn end_colocation(&mut self, now: u64) {
        if self.shown.len() >= SHOWN_ITERATIONS {
            self.growth = quantile(&mut self.shown, 0.99).unwrap_or(1.0);
            self.shown.clear();
        }
        if self.part() < MIN_PART {
            (self.all, self.bounds) = (Balance { run: 0, ..Balance::at(PROBE) }, Vec::new());
            self.state = State::Pause(now + self.pause);
            self.pause = (self.pause * 2).min(MAX_PAUSE);
        } else if now >= self.next_alone {
            self.begin_alone(now);
        }
    }
}

impl Balance {
    fn at(part: f64) -> Self {
        Self { part, run: FIRST_RUN, fall: 1.0 }
    }

    /// Moves by one iteration, by less the less it says.
    fn note(&mut self, verdict: Verdict, most: f64) {
        if verdict.is_late {
            let is_soon = (f64::from(self.run) + 1.0) * verdict.share <= SOON * LATE_SHARE;
            self.fall = if is_soon { (self.fall * 1.5).min(8.0) } else { 1.0 };
            self.run = 0;
            self.part *= (-FALL * self.fall * verdict.weight()).exp();
            return;
        }
        let haste = (1.0 + f64::from(self.run) * verdict.share).min(MAX_HASTE);
        let rise = RISE * haste * verdict.weight() * verdict.share / LATE_SHARE;
        self.part = (self.part * rise.exp()).min(most.max(self.part));
        self.run = self.run.saturating_add(1);
    }
}
