//! Controller: finds the part of the time that keeps a real-time program's latency at its target.
//!
//! It compares *iterations*: from a thread's first launch to the end of its wait for the device.
//! Iterations with the same number of launches are of one kind. At times nothing passes, and the
//! iterations of each kind are measured alone. In between each iteration is late or not: an
//! iteration is late if it is longer than the target times the 99th percentile alone. A late
//! iteration makes the part smaller, any other iteration makes it larger by so much less that both
//! are in balance if one iteration in a hundred is late. The balance holds the 99th percentile at
//! the target, whatever iterations depend on apart from the part.

use super::quantile::quantile;
use super::share::Slo;
use crate::limit::quantity::WHOLE;
use crate::page::iterations::Iteration;

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
/// Iterations alone of each kind that are kept: those of the last measurements.
const KEPT_ITERATIONS: usize = 1024;
/// Measurements in sequence whose median is outside of the middle nine tenths of the kept
/// iterations, after which those are dropped: the program has changed.
const MAX_ODD: u32 = 4;
/// Maximum number of kinds. Iterations of further kinds are ignored.
const MAX_KINDS: usize = 16;
/// Part of the time, in parts per million, at which it starts, and which it tries after a pause.
pub const MAX_PROBE: u32 = 50_000;
/// [`MAX_PROBE`] as a part of one.
const PROBE: f64 = MAX_PROBE as f64 / WHOLE as f64;
/// Least part that is not a pause.
const MIN_PART: f64 = 0.005;
/// Largest part by that which has really passed.
const MAX_RISE: f64 = 1.5;
/// Share of late iterations that is held.
const LATE_SHARE: f64 = 0.01;
/// Fall of the part's logarithm for a late iteration.
const FALL: f64 = 0.05;
/// Rise of the part's logarithm for any other iteration, right after a late one. It doubles after
/// `1 / LATE_SHARE` iterations, and so on in equal steps, up to [`MAX_HASTE`] times. Then a late
/// iteration in a hundred, at random, balances it.
const RISE: f64 = FALL * LATE_SHARE / 2.0;
const MAX_HASTE: f64 = 10.0;
/// Iterations within which the next late one makes the part fall faster: by half, up to eight
/// times.
const SOON: u32 = 4;
/// Iterations that seem to have been on time before the first one.
const FIRST_RUN: u32 = 400;
/// Pauses after a part that was too large however small, in nanoseconds. They double.
const MIN_PAUSE: u64 = 1_000_000_000;
const MAX_PAUSE: u64 = 32_000_000_000;

/// Iterations alone of one kind.
#[derive(Debug, Default)]
struct Kind {
    kind: u32,
    /// Lengths in nanoseconds that aren't kept yet.
    lengths: Vec<f64>,
    /// Number of lengths from the measurement that lasts or was last.
    fresh: usize,
    /// Lengths of the last measurements, and their median. Zero: unknown.
    kept: Vec<f64>,
    median: f64,
    /// Lengths of the last measurements that are far from the kept ones, and their number.
    apart: Vec<f64>,
    odd: u32,
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
    kinds: Vec<Kind>,
    /// 99th percentile of iterations alone, each divided by the median of its kind.
    alone: f64,
    /// Last iterations, each divided by the median of its kind, since growth was measured.
    shown: Vec<f64>,
    /// Part of the time, 0 to 1.
    part: f64,
    /// Iterations since the last late one.
    run: u32,
    /// Haste of the fall: late iterations soon after each other.
    fall: f64,
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
            kinds: Vec::new(),
            alone: 1.0,
            shown: Vec::new(),
            part: PROBE,
            run: FIRST_RUN,
            fall: 1.0,
            growth: 1.0,
            interval: MIN_INTERVAL,
            next_alone: now,
            pause: MIN_PAUSE,
        }
    }

    /// Returns the part of the time that passes now, in parts per million.
    pub fn duty(&self) -> u32 {
        match self.state {
            State::Colocated(_) => (self.part * f64::from(WHOLE)) as u32,
            State::Alone(_) | State::Pause(_) => 0,
        }
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
            State::Alone(since) if begin >= since && length > 0.0 => {
                self.note_alone(iteration.kind, length)
            }
            State::Colocated(since) if begin >= since => {
                let known = self.kinds.iter().find(|kind| kind.kind == iteration.kind);
                let median = known.map(|kind| kind.median).filter(|median| *median > 0.0);
                median.into_iter().for_each(|median| self.adapt(length / median, most));
            }
            _ => {}
        }
    }

    fn note_alone(&mut self, kind: u32, length: f64) {
        let known = self.kinds.iter_mut().find(|one| one.kind == kind);
        let Some(known) = known else {
            if self.kinds.len() < MAX_KINDS {
                self.kinds.push(Kind { kind, lengths: vec![length], fresh: 1, ..Kind::default() });
            }
            return;
        };
        known.lengths.push(length);
        known.fresh += 1;
    }

    fn begin_alone(&mut self, now: u64) {
        self.kinds.iter_mut().for_each(|kind| kind.fresh = 0);
        self.state = State::Alone(now);
    }

    /// Ends a measurement alone if it has enough iterations, or lasts for too long.
    fn end_alone(&mut self, since: u64, now: u64) {
        let iterations: usize = self.kinds.iter().map(|kind| kind.fresh).sum();
        let is_late = now.saturating_sub(since) >= MAX_ALONE;
        let is_first = self.kinds.iter().all(|kind| kind.median == 0.0);
        let enough = if is_first { FIRST_ITERATIONS } else { ALONE_ITERATIONS };
        if iterations < enough && !(is_late && iterations >= FEW_ITERATIONS) {
            if is_late && iterations == 0 {
                self.state = State::Pause(now + MIN_PAUSE); // nothing to measure
            }
            return;
        }
        self.kinds.iter_mut().for_each(Kind::settle);
        let mut all: Vec<f64> = self.kinds.iter().flat_map(Kind::relative).collect();
        self.alone = quantile(&mut all, 0.99).unwrap_or(1.0).max(1.0);
        if self.kinds.iter().any(|kind| kind.odd > 0) {
            self.interval = MIN_INTERVAL;
        }
        self.next_alone = now + self.interval;
        self.interval = (self.interval * 2).min(MAX_INTERVAL);
        self.shown.clear();
        self.state = State::Colocated(now);
    }

    /// Sets the part by one iteration, which is divided by the median of its kind. The part is at
    /// most `most`, or as it was.
    fn adapt(&mut self, iteration: f64, most: f64) {
        self.shown.push(iteration);
        if iteration > self.target * self.alone {
            self.fall = if self.run < SOON { (self.fall * 1.5).min(8.0) } else { 1.0 };
            self.run = 0;
            self.part *= (-FALL * self.fall).exp();
            return;
        }
        let haste = (1.0 + f64::from(self.run) * LATE_SHARE).min(MAX_HASTE);
        self.part = (self.part * (RISE * haste).exp()).min(most.max(self.part));
        self.run = self.run.saturating_add(1);
        if self.part > 2.0 * PROBE {
            self.pause = MIN_PAUSE;
        }
    }

    /// Measures growth, and ends this state if it is time to, or if the least part is too much.
    fn end_colocation(&mut self, now: u64) {
        if self.shown.len() >= SHOWN_ITERATIONS {
            self.growth = quantile(&mut self.shown, 0.99).unwrap_or(self.alone) / self.alone;
            self.shown.clear();
        }
        if self.part < MIN_PART {
            (self.part, self.run) = (PROBE, 0);
            self.state = State::Pause(now + self.pause);
            self.pause = (self.pause * 2).min(MAX_PAUSE);
        } else if now >= self.next_alone {
            self.begin_alone(now);
        }
    }
}

impl Kind {
    /// Keeps the iterations of a measurement, if there are enough. Iterations of a rare kind wait
    /// for more.
    fn settle(&mut self) {
        if self.lengths.len() < FEW_ITERATIONS && self.median > 0.0 {
            return;
        }
        let Some(median) = quantile(&mut self.lengths, 0.5) else { return };
        if self.lengths.len() < FEW_ITERATIONS {
            self.median = median;
            return;
        }
        let kept = |at| quantile(&mut self.kept.clone(), at).unwrap_or(median); // it sorts
        let [low, high] = [0.05, 0.95].map(kept);
        self.odd = if (low..=high).contains(&median) { 0 } else { self.odd + 1 };
        self.apart.append(&mut self.lengths);
        if self.odd >= MAX_ODD {
            (self.odd, self.kept) = (0, Vec::new());
        }
        if self.odd == 0 {
            self.kept.append(&mut self.apart);
            let extra = self.kept.len().saturating_sub(KEPT_ITERATIONS);
            self.kept.drain(..extra);
            self.median = quantile(&mut self.kept.clone(), 0.5).unwrap_or(median);
        }
    }

    /// Returns the kept iterations, each divided by their median.
    fn relative(&self) -> impl Iterator<Item = f64> {
        self.kept.iter().map(|length| length / self.median)
    }
}
