//! Controller: finds the part of the time that keeps a real-time program's latency at its target.
//!
//! It compares *laps*: from a thread's first launch to the end of its wait for the device. Laps
//! with the same number of launches are of one kind. At times nothing passes, and the laps of
//! each kind are measured alone. In between, batches of laps with a constant part of the time say
//! by how much the 99th percentile has grown. Growth is taken to be proportional to the part, with
//! a slope that follows the measurements.

use super::quantile::quantile;
use super::share::Slo;
use crate::limit::quantity::WHOLE;
use crate::page::laps::Lap;

/// Laps of a measurement alone.
const ALONE_LAPS: usize = 128;
/// Its longest time, in nanoseconds.
const MAX_ALONE: u64 = 500_000_000;
/// Time from one measurement alone to the next, at first and at most. It doubles.
const MIN_INTERVAL: u64 = 2_000_000_000;
const MAX_INTERVAL: u64 = 16_000_000_000;
/// Laps of a batch, and its longest time if it has [`FEW_LAPS`].
const BATCH_LAPS: usize = 128;
const MAX_BATCH: u64 = 500_000_000;
const FEW_LAPS: usize = 16;
/// Laps alone of each kind that are kept: those of the last measurements.
const KEPT_LAPS: usize = 512;
/// Maximum number of kinds. Laps of further kinds are ignored.
const MAX_KINDS: usize = 16;
/// Part of the time, in parts per million, at which it starts, and which it tries after a pause.
pub const MAX_PROBE: u32 = 50_000;
/// Least part that is not a pause.
const MIN_PART: f64 = 0.005;
/// Largest growth of the part from one batch to the next, and the largest fall.
const MAX_RISE: f64 = 1.5;
const MAX_FALL: f64 = 0.5;
/// Weight of a new measurement of the slope.
const FRESH: f64 = 0.3;
/// Pauses after a part that was too large however small, in nanoseconds. They double.
const MIN_PAUSE: u64 = 1_000_000_000;
const MAX_PAUSE: u64 = 32_000_000_000;

/// Laps alone of one kind.
#[derive(Debug)]
struct Kind {
    kind: u32,
    /// Lengths in nanoseconds that no median has counted.
    lengths: Vec<f64>,
    /// Number of lengths from the measurement that lasts or was last.
    fresh: usize,
    /// Median of the last measurement with enough laps; zero: unknown.
    median: f64,
    /// Lengths of the last measurements, each divided by the median of its own.
    relative: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Nothing passes, and laps alone are measured, since this time.
    Alone(u64),
    /// The part passes, since this time, until the time of the next measurement alone.
    Beside(u64),
    /// Nothing passes until this time, because the least part was too much.
    Pause(u64),
}

/// Controller of one real-time program.
#[derive(Debug)]
pub struct Controller {
    target: f64,
    state: State,
    kinds: Vec<Kind>,
    /// 99th percentile of laps alone, each divided by the median of its kind.
    alone: f64,
    /// Laps of this batch, each divided by the median of its kind.
    batch: Vec<f64>,
    /// Part of the time, 0 to 1.
    part: f64,
    /// Growth of latency for the whole time. `None`: unknown.
    slope: Option<f64>,
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
            batch: Vec::new(),
            part: f64::from(MAX_PROBE) / f64::from(WHOLE),
            slope: None,
            growth: 1.0,
            interval: MIN_INTERVAL,
            next_alone: now,
            pause: MIN_PAUSE,
        }
    }

    /// Returns the part of the time that passes now, in parts per million.
    pub fn duty(&self) -> u32 {
        match self.state {
            State::Beside(_) => (self.part * f64::from(WHOLE)) as u32,
            State::Alone(_) | State::Pause(_) => 0,
        }
    }

    /// Returns whether laps are measured alone, so that nothing may pass.
    pub fn is_alone(&self) -> bool {
        matches!(self.state, State::Alone(_))
    }

    /// Returns the last measured latency as a multiple of the latency alone, at the 99th
    /// percentile.
    pub fn growth(&self) -> f64 {
        self.growth
    }

    /// Notes laps that have ended, in order, and the time. `applied` is the part that really
    /// passed, in parts per million: it may be bounded otherwise.
    pub fn note(&mut self, laps: &[Lap], now: u64, applied: u32) {
        laps.iter().for_each(|lap| self.note_lap(lap));
        match self.state {
            State::Alone(since) => self.end_alone(since, now),
            State::Beside(since) => self.end_batch(since, now, applied),
            State::Pause(until) if now >= until => self.begin_alone(now),
            State::Pause(_) => {}
        }
    }

    fn note_lap(&mut self, lap: &Lap) {
        let (begin, length) = (lap.begin(), lap.length as f64);
        match self.state {
            // Laps that began before belong to the state before.
            State::Alone(since) if begin >= since && length > 0.0 => {
                self.note_alone(lap.kind, length)
            }
            State::Beside(since) if begin >= since => {
                let known = self.kinds.iter().find(|kind| kind.kind == lap.kind);
                let median = known.map(|kind| kind.median).filter(|median| *median > 0.0);
                self.batch.extend(median.map(|median| length / median));
            }
            _ => {}
        }
    }

    fn note_alone(&mut self, kind: u32, length: f64) {
        let known = self.kinds.iter_mut().find(|one| one.kind == kind);
        let Some(known) = known else {
            if self.kinds.len() < MAX_KINDS {
                let (lengths, relative) = (vec![length], Vec::new());
                self.kinds.push(Kind { kind, lengths, fresh: 1, median: 0.0, relative });
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

    /// Ends a measurement alone if it has enough laps, or lasts for too long.
    fn end_alone(&mut self, since: u64, now: u64) {
        let laps: usize = self.kinds.iter().map(|kind| kind.fresh).sum();
        let is_late = now.saturating_sub(since) >= MAX_ALONE;
        if laps < ALONE_LAPS && !(is_late && laps >= FEW_LAPS) {
            if is_late && laps == 0 {
                self.state = State::Pause(now + MIN_PAUSE); // nothing to measure
            }
            return;
        }
        self.kinds.iter_mut().for_each(Kind::settle);
        let all = self.kinds.iter().flat_map(|kind| kind.relative.iter().copied());
        let mut all: Vec<f64> = all.collect();
        self.alone = quantile(&mut all, 0.99).unwrap_or(1.0).max(1.0);
        self.next_alone = now + self.interval;
        self.interval = (self.interval * 2).min(MAX_INTERVAL);
        self.begin_batch(now);
    }

    fn begin_batch(&mut self, now: u64) {
        self.batch.clear();
        self.state = State::Beside(now);
    }

    /// Ends a batch if it has enough laps, and sets the part of the next one.
    fn end_batch(&mut self, since: u64, now: u64, applied: u32) {
        let is_late = now.saturating_sub(since) >= MAX_BATCH;
        let laps = self.batch.len();
        if laps >= BATCH_LAPS || is_late && laps >= FEW_LAPS {
            let slowest = quantile(&mut self.batch, 0.99).unwrap_or(self.alone);
            self.adapt(slowest / self.alone, f64::from(applied) / f64::from(WHOLE), now);
            if matches!(self.state, State::Beside(_)) {
                self.begin_batch(now);
            }
        }
        if now >= self.next_alone && !matches!(self.state, State::Pause(_)) {
            self.begin_alone(now);
        }
    }

    /// Sets the part by a measured growth at the part that passed.
    fn adapt(&mut self, growth: f64, applied: f64, now: u64) {
        self.growth = growth;
        let part = applied.max(MIN_PART);
        let measured = ((growth - 1.0) / part).max(0.0);
        let slope = match self.slope {
            // Far off: the program has changed, or little is known.
            Some(slope) if measured < 2.0 * slope && slope < 2.0 * measured => {
                slope + FRESH * (measured - slope)
            }
            _ => measured,
        };
        self.slope = Some(slope);
        let wanted = if slope > 0.0 { (self.target - 1.0) / slope } else { 1.0 };
        // What has not passed is not known to be harmless.
        let most = MAX_RISE * part.max(f64::from(MAX_PROBE) / f64::from(WHOLE));
        self.part = wanted.clamp((MAX_FALL * self.part).min(most), most).min(1.0);
        if self.part < MIN_PART {
            self.part = f64::from(MAX_PROBE) / f64::from(WHOLE);
            self.slope = None;
            self.state = State::Pause(now + self.pause);
            self.pause = (self.pause * 2).min(MAX_PAUSE);
        } else if growth <= self.target {
            self.pause = MIN_PAUSE;
        }
    }
}

impl Kind {
    /// Takes the median of the laps, if there are enough. Laps of a rare kind wait for more.
    fn settle(&mut self) {
        if self.lengths.len() < FEW_LAPS && self.median > 0.0 {
            return;
        }
        let median = quantile(&mut self.lengths, 0.5).unwrap_or(0.0);
        if median <= 0.0 {
            return;
        }
        self.median = median;
        if self.lengths.len() >= FEW_LAPS {
            self.relative.extend(self.lengths.drain(..).map(|length| length / median));
            let extra = self.relative.len().saturating_sub(KEPT_LAPS);
            self.relative.drain(..extra);
        }
    }
}
