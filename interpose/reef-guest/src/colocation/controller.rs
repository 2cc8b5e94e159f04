//! Controller: finds the part of the time that keeps a real-time program's latency at its target.
//!
//! It compares *iterations*: from a thread's first launch to the end of its wait for the device.
//! Iterations with the same number of launches are of one kind. For moments, spread evenly, nothing
//! passes, and the iterations of each kind are measured alone: one or a few at a time, so that
//! best-effort work never stands still for long, and more of them the less is known. Between these
//! each iteration is late or not: an iteration is late if it is longer than the target times what
//! few iterations of its kind exceed alone ([`Baseline`]). [`Balances`] find the part at which one
//! iteration in a hundred is late. This holds the 99th percentile at the target, whatever
//! iterations depend on apart from the part.
//!
//! Late iterations in sequence may be the host's doing: it is slower for a while. So they are
//! checked: nothing passes for a moment, and they are compared with iterations alone right after.
//! If they were within the target of these, they do not count, nor do the next ones. What a check
//! measures is not kept, because it is measured when iterations are longer than usual.
//!
//! Before it searches for a part it lets *all* pass: a program that is slow enough by itself, such
//! as one with few threads, needs no windows, and they would take from it and give nothing. All
//! passes as long as the target is missed by no more than [`TOLERANCE`]. Late iterations soon after
//! each other end that, unless the host made them late. The next attempt comes seconds later.
//!
//! As long as nothing is known, and while even the least part is too much, no window opens: the
//! program runs as one without a target. So it does if a [`Trial`] shows that best-effort programs
//! do no more with windows than without: they may do enough while the real-time program is idle.
//! And so it does, but for attempts to let all pass, if the part at the target is smaller than
//! [`WORTH`] times what the target costs. Under MPS it must be as much as a fixed share of threads
//! gives at that cost ([`WORTH_OF_THREADS`]).

use super::balance::Balances;
use super::share::Slo;
use super::trial::{Outcome, Trial};
use crate::limit::quantity::WHOLE;
use crate::page::iterations::Iteration;
use reef_latency::{Baseline, LATE_SHARE, Verdict, quantile};

/// Iterations alone that are taken over together.
const ALONE_ITERATIONS: usize = 16;
/// Time of a measurement for which peers are held although the program doesn't work, in
/// nanoseconds: its next iteration shall begin on a quiet device.
const MAX_SILENCE: u64 = 20_000_000;
/// Least and greatest length of a measurement, in nanoseconds.
const MIN_ALONE: u64 = 8_000_000;
const MAX_ALONE: u64 = 500_000_000;
/// Greatest length of one of a program with long iterations: as long as these many of its last one,
/// because the measurement begins in the middle of an iteration. And the most for any program.
const LONG_ITERATIONS: u64 = 3;
const MAX_LONG_ALONE: u64 = 60_000_000_000;
/// Time after which the device has ended what passed before, in nanoseconds: for an iteration that
/// follows another one of the measurement, and for the first one.
const QUIET_SOON: u64 = 1_000_000;
const QUIET_SURELY: u64 = 5_000_000;
/// Times of colocation for each time of measurement: while the latency alone, or that of the
/// present iterations, is unknown or in doubt, while there are fewer than [`MANY_ITERATIONS`],
/// later, and while all or nothing passes once there are [`SOME_ITERATIONS`]. After a check by
/// which the host is slow, iterations do not count for the first one of these.
const INTERVALS: [f64; 4] = [3.0, 15.0, 47.0, 95.0];
const MANY_ITERATIONS: usize = 400;
const SOME_ITERATIONS: usize = 100;
/// Measurements in haste that iterations of an unknown kind in sequence may cause, and the number
/// of others after which there may be one more: some programs have more kinds than are kept.
const MAX_HASTY: u32 = 32;
const OTHERS: u32 = 8;
/// Part by which such an interval is shorter or longer, so that iterations of all kinds are met.
const SPREAD: f64 = 0.5;
/// Step of the sequence that spreads them: its multiples modulo one are even, in any number.
const GOLDEN: f64 = 0.618_033_988_75;
/// Iterations by which growth is measured. It is shown, and decides nothing.
const SHOWN_ITERATIONS: usize = 256;
/// Measurements of [`ALONE_ITERATIONS`] in sequence whose median is outside of the middle nine
/// tenths of the kept iterations, after which those are dropped: the program has changed.
const MAX_ODD: u32 = 4;
/// Part of the time, in parts per million, at which it starts.
pub const MAX_PROBE: u32 = 50_000;
/// [`MAX_PROBE`] as a part of one.
const PROBE: f64 = MAX_PROBE as f64 / WHOLE as f64;
/// Least part that is not a pause, and the part that it tries after one.
const MIN_PART: f64 = 0.005;
const RETRY: f64 = 1.5 * MIN_PART;
/// Largest part by that which has really passed, and the part of it below which that is bounded.
const MAX_RISE: f64 = 1.5;
const BOUNDED: f64 = 0.9;
/// Distance from the target within which all passes, at most, and as a part of what the target
/// allows iterations to be longer. The balance of windows is as uncertain.
const TOLERANCE: f64 = 0.02;
const TOLERANT_PART: f64 = 0.2;
/// Part by the balances at which all passes, and the one at which that ends. They begin at one. On
/// the way there are six to fourteen late ones more than are allowed: a few do not end it.
const WIDEST: f64 = 0.99;
const MIN_WIDE: f64 = 0.5;
/// Multiple of what the target allows, by which late iterations must be longer than alone for a
/// single check to end it, once [`LONG_WIDE`] have passed and none failed for [`LASTING_WIDE`].
const FAR: f64 = 5.0;
/// Chance of late iterations in sequence, were they late as rarely as is allowed, at which they are
/// checked: after three, so that they are fewer than one in a hundred of the first second.
const MIN_CHANCE: f64 = 1e-4;
/// Iterations after which all that passed was almost right: the search goes on from
/// [`ALMOST_WIDE`], and not from where it was before. And those after which the next attempt is
/// soon.
const LONG_WIDE: usize = 400;
const ALMOST_WIDE: f64 = 0.7;
const LASTING_WIDE: usize = 3000;
/// Least part for each part by which the target allows iterations to be longer, and the most that
/// this asks for. With less the program runs as one without a target. A part that the guest bounds
/// is not judged.
const WORTH: f64 = 0.7;
const MAX_LEAST: f64 = 1.3 * PROBE;
/// Both under MPS, where threads can be shared instead. On an H200 20 % of them keep 38 to 44 %
/// of a training's speed next to a language model, Whisper and a U-Net, at 1.10 or less if all runs
/// count together, and 30 to 50 % of them keep 53 to 79 % at 1.2 to 1.3 (docs/lab/nvidia.md).
const WORTH_OF_THREADS: f64 = 4.0;
const MAX_LEAST_OF_THREADS: f64 = 0.6;
/// Weight of the iterations by which that is judged: their number if none is late alone. Those of
/// kinds with fewer than [`SOME_ITERATIONS`] alone are not counted: the least part may be too much
/// for them because a lower quantile is their limit.
const JUDGED_WEIGHT: f64 = 512.0;
/// Pauses after a part that was too large however small, in nanoseconds. They double.
const MIN_PAUSE: u64 = 2_000_000_000;
const MAX_PAUSE: u64 = 32_000_000_000;
/// Pauses after a trial in which windows did not pay. They double as well.
const MIN_REST: u64 = 30_000_000_000;
const MAX_REST: u64 = 120_000_000_000;
/// Times from an attempt to let all pass that failed to the next one. They grow by this factor: the
/// first one may have failed by chance, because few iterations alone were known.
const MIN_WIDE_REST: u64 = 8_000_000_000;
const MAX_WIDE_REST: u64 = 120_000_000_000;
const MORE_REST: u64 = 2;
/// Iterations from an attempt that failed to the next one, at least: it makes some three late, and
/// of long iterations there are few others in that time. If it made more late, these for each of
/// them, but no more than that.
const WIDE_INTERVAL: usize = 2000;
const EACH_LATE: f64 = 400.0;
const MAX_WIDE_INTERVAL: usize = 20_000;
/// Times without windows after a part that was not worth its cost. They double as well, and are so
/// long because more than one iteration in a hundred may be slower until that is known again.
const MIN_DEAR: u64 = 60_000_000_000;
const MAX_DEAR: u64 = 960_000_000_000;
/// Time of windows before a trial, in nanoseconds: at least, and at most if the part still rises by
/// more than this factor in [`RISE_ITERATIONS`].
const BEFORE_TRIAL: u64 = 1_500_000_000;
const MAX_BEFORE_TRIAL: u64 = 10_000_000_000;
const STILL_RISES: f64 = 1.2;
const RISE_ITERATIONS: usize = 32;
/// Time from a trial in which windows paid to the next one. It grows by this factor.
const MIN_BETWEEN: u64 = 60_000_000_000;
const MAX_BETWEEN: u64 = 240_000_000_000;
const LESS_OFTEN: u64 = 4;
/// Least part of what best-effort programs did without windows: if they do less, a pause ends.
const MIN_WORK: f64 = 0.7;
/// Time over which that is measured.
const WORK_INTERVAL: u64 = 1_000_000_000;

/// Mean of lengths, each divided by what few of its kind exceed alone.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: f64,
}

/// Late iterations in sequence, and the balances, the stretch and the excess before them.
#[derive(Debug)]
struct Sequence {
    late: Mean,
    before: Balances,
    stretch: Stretch,
    excess: f64,
}

/// Iterations since it was last judged whether windows are worth what they cost.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    count: f64,
    /// Sum of their squared weights.
    weight: f64,
    /// Sum of the parts that passed in them.
    parts: f64,
    /// Late ones, less those that were allowed.
    excess: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Nothing passes, and iterations alone are measured, since this time.
    Alone(u64),
    /// The part passes until the next measurement alone, and iterations count from this time on.
    Colocated(u64),
    /// Nothing passes until this time, because the least part was too much, or didn't pay.
    Pause(u64),
}

/// Work of best-effort programs during a pause after a trial.
#[derive(Debug)]
struct Watch {
    /// Their work without windows, a nanosecond.
    usual: f64,
    /// Begin of the interval, and the work that had been done then.
    begin: u64,
    work: u64,
}

/// Controller of one real-time program.
#[derive(Debug)]
pub struct Controller {
    target: f64,
    /// Windows begin as iterations end.
    is_after_iterations: bool,
    /// Time until which others may have passed.
    passed: u64,
    /// Time until which there are no windows because they are too dear: all passes, or nothing.
    dear_until: u64,
    has_dear_windows: bool,
    /// Less passes than might: the guest's share bounds it.
    is_bounded: bool,
    state: State,
    alone: Baseline,
    /// The latency alone is unknown or in doubt: nothing passes.
    is_in_doubt: bool,
    /// Iterations of the measurement that lasts, those that began in it, and those of all since the
    /// program last changed.
    measured: usize,
    begun: usize,
    known: usize,
    /// Time of the measurement that lasts in which an iteration ran, as far as these have ended.
    worked: u64,
    /// Length of the last iteration. Zero: none has ended since a measurement that had none.
    last_length: u64,
    /// Time until which the program works if its next iteration is as long.
    works_until: u64,
    /// Iterations in sequence whose latency alone isn't known, and [`OTHERS`] for each measurement
    /// in haste that they may still cause.
    unknown: u32,
    hasty: u32,
    /// Measurements for which peers were held for longer than [`MAX_SILENCE`].
    long_silences: u64,
    /// Place in the sequence that spreads measurements, from 0 to 1.
    spread: f64,
    /// Last iterations, each divided by what few of its kind exceed alone, since growth was
    /// measured.
    shown: Vec<f64>,
    balances: Balances,
    /// Last late iterations in sequence. While these are checked: iterations alone right after.
    sequence: Sequence,
    check: Option<Mean>,
    /// All passes. The balances then say whether it may, by a target with the tolerance.
    is_wide: bool,
    wide_target: f64,
    /// Part to which windows return after that, the time before which it isn't tried again, and the
    /// time from the next failure to another attempt.
    found: f64,
    next_wide: u64,
    wide_rest: u64,
    /// Iterations before another attempt. In this one: late ones less those that were allowed, and
    /// iterations before the last check that failed.
    before_wide: usize,
    wide_excess: f64,
    doubted: Option<usize>,
    /// Least part that is worth what the target costs, and what was seen since that was judged.
    least: f64,
    stretch: Stretch,
    /// Time without windows if it isn't.
    dear: u64,
    /// Last measured growth: 1 is alone.
    growth: f64,
    next_alone: u64,
    pause: u64,
    /// The trial that lasts, the time before which there is no other one, and the time from that to
    /// another.
    trial: Option<Trial>,
    next_trial: u64,
    between: u64,
    /// Since when windows have opened, and the iterations since then.
    opened: u64,
    tried: usize,
    /// The part some iterations ago, and whether it had risen by little before.
    earlier: f64,
    is_steady: bool,
    /// During a pause after a trial, and the length of the next such pause.
    watch: Option<Watch>,
    rest: u64,
}

impl Controller {
    /// Creates a controller that begins with a measurement alone at this time, in nanoseconds.
    pub fn new(target: Slo, now: u64) -> Self {
        let target = target.ratio();
        Self {
            target,
            is_after_iterations: false,
            passed: now,
            dear_until: 0,
            has_dear_windows: false,
            is_bounded: false,
            state: State::Alone(now),
            alone: Baseline::new(MAX_ODD, 0.0),
            is_in_doubt: true,
            measured: 0,
            begun: 0,
            known: 0,
            worked: 0,
            last_length: 0,
            works_until: now,
            unknown: 0,
            hasty: MAX_HASTY * OTHERS,
            long_silences: 0,
            spread: 0.0,
            shown: Vec::new(),
            balances: Balances::at(PROBE),
            sequence: Sequence {
                late: Mean::default(),
                before: Balances::at(PROBE),
                stretch: Stretch::default(),
                excess: 0.0,
            },
            check: None,
            is_wide: false,
            wide_target: target + TOLERANCE.min(TOLERANT_PART * (target - 1.0)),
            found: PROBE,
            next_wide: 0,
            wide_rest: MIN_WIDE_REST,
            before_wide: 0,
            wide_excess: 0.0,
            doubted: None,
            least: find_least_part(target, false),
            stretch: Stretch::default(),
            dear: MIN_DEAR,
            growth: 1.0,
            next_alone: now,
            pause: MIN_PAUSE,
            trial: None,
            next_trial: 0,
            between: MIN_BETWEEN,
            opened: now,
            tried: 0,
            earlier: 0.0,
            is_steady: false,
            watch: None,
            rest: MIN_REST,
        }
    }

    /// Creates a controller next to other best-effort programs, of which nothing is known. If all
    /// passed lately and was too much, it begins with no more than passes here.
    pub(crate) fn next_to_others(&self, target: Slo, now: u64) -> Self {
        let mut other = Self::new(target, now);
        if self.before_wide > 0 {
            other.balances = Balances::after_late(self.part().clamp(MIN_PART, PROBE));
        }
        other
    }

    /// Sets whether windows begin as iterations end, and at no other time.
    pub(crate) fn set_after_iterations(&mut self, is_set: bool) {
        self.is_after_iterations = is_set;
    }

    /// Sets whether programs run side by side under MPS, which has shares of threads.
    pub(crate) fn set_under_mps(&mut self, is_set: bool) {
        let least = find_least_part(self.target, is_set);
        if least != self.least {
            (self.least, self.dear_until, self.dear) = (least, 0, MIN_DEAR);
            self.stretch = Stretch::default();
        }
    }

    /// Notes that others may have passed until this time.
    pub(crate) fn note_passed(&mut self, until: u64) {
        self.passed = until;
    }

    /// Returns the part of the time that passes now, in parts per million.
    pub fn duty(&self) -> u32 {
        match self.state {
            State::Colocated(_) if !self.has_windows() => 0,
            State::Colocated(_) if self.is_wide => WHOLE,
            State::Colocated(_) => (self.part() * f64::from(WHOLE)) as u32,
            _ => 0,
        }
    }

    /// Returns whether something may pass: all, or windows.
    fn has_windows(&self) -> bool {
        let may_open = !self.is_in_doubt && (self.is_wide || !self.has_dear_windows);
        may_open && self.trial.as_ref().is_none_or(Trial::has_windows)
    }

    fn part(&self) -> f64 {
        self.balances.part()
    }

    /// Returns whether nothing may pass at this time although the program doesn't work: an
    /// iteration that begins now is measured alone.
    pub fn is_silent(&self, now: u64) -> bool {
        matches!(self.state, State::Alone(since) if now.saturating_sub(since) < MAX_SILENCE)
    }

    /// Returns the last measured latency as a multiple of the latency alone, at the 99th
    /// percentile.
    pub fn growth(&self) -> f64 {
        self.growth
    }

    /// Returns the number of measurements for which peers were held for longer than 20 ms: the
    /// program's iterations are that long.
    pub(crate) fn long_silences(&self) -> u64 {
        self.long_silences
    }

    /// Forgets what is known of the program alone: it has ended. The parts that were found stay.
    pub(crate) fn forget_alone(&mut self) {
        self.alone = Baseline::new(MAX_ODD, 0.0);
        (self.known, self.is_in_doubt, self.long_silences) = (0, true, 0);
        (self.shown, self.growth) = (Vec::new(), 1.0);
    }

    /// Goes on from this time, with what another controller of the same program knows of it alone.
    pub(crate) fn follow(&mut self, before: &mut Self, now: u64) {
        std::mem::swap(&mut self.alone, &mut before.alone);
        (self.known, self.is_in_doubt) = (before.known, before.is_in_doubt);
        (self.long_silences, self.passed) = (before.long_silences, now);
        // Or each set that has begun makes iterations late, and they begin again and again.
        self.before_wide = self.before_wide.max(before.before_wide);
        if self.trial.take().is_some() {
            // Or sets that take turns would be in a trial all the time, and end none.
            self.next_trial = now.saturating_add(MIN_BETWEEN);
        }
        (self.stretch, self.sequence.stretch) = (Stretch::default(), Stretch::default());
        self.shown.clear();
        match self.state {
            State::Pause(until) if now < until => self.is_in_doubt = true,
            _ => self.resume(now),
        }
    }

    /// Notes iterations that have ended, in order, and the time. `applied` is the part that really
    /// passed, in parts per million: it may be bounded otherwise. `work` is what best-effort
    /// programs have done, in any unit that grows.
    pub fn note(&mut self, iterations: &[Iteration], now: u64, applied: u32, work: u64) {
        // Work that has not passed is not known to be harmless.
        self.is_bounded = f64::from(applied) < BOUNDED * f64::from(self.duty());
        let most = (MAX_RISE * PROBE.max(f64::from(applied) / f64::from(WHOLE))).min(1.0);
        iterations.iter().for_each(|iteration| self.note_iteration(iteration, most));
        self.before_wide = self.before_wide.saturating_sub(iterations.len());
        let state = self.state;
        match state {
            State::Alone(since) => self.end_alone(since, now),
            State::Colocated(_) => self.end_colocation(now, work, !iterations.is_empty()),
            State::Pause(until) if now >= until || self.does_less(now, work) => self.resume(now),
            State::Pause(_) => {}
        }
    }

    /// Returns whether best-effort programs do less than they did without windows in the trial
    /// before this pause.
    fn does_less(&mut self, now: u64, work: u64) -> bool {
        let Some(watch) = &mut self.watch else { return false };
        let time = now.saturating_sub(watch.begin);
        if time < WORK_INTERVAL {
            return false;
        }
        let rate = work.saturating_sub(watch.work) as f64 / time as f64;
        (watch.begin, watch.work) = (now, work);
        rate < MIN_WORK * watch.usual
    }

    fn resume(&mut self, now: u64) {
        self.watch = None;
        self.begin_alone(now);
    }

    fn note_iteration(&mut self, iteration: &Iteration, most: f64) {
        let (begin, length) = (iteration.begin(), iteration.length as f64);
        self.last_length = iteration.length;
        self.works_until = iteration.end.saturating_add(iteration.length);
        match self.state {
            // Iterations that began before belong to the state before.
            State::Alone(since) if begin >= since => self.note_alone(iteration, begin - since),
            State::Colocated(since) if begin >= since && self.is_untouched(begin) => {
                self.note_untouched(iteration);
            }
            State::Colocated(since) if begin >= since && self.has_windows() => {
                let wide = (self.wide_target, 1.0);
                let (ratio, most) = if self.is_wide { wide } else { (self.target, most) };
                match self.alone.verdict(iteration.kind.into(), length, ratio) {
                    Some(verdict) => self.adapt(iteration.kind, verdict, most),
                    None => self.note_unknown(iteration.end),
                }
            }
            _ => {}
        }
        if let State::Alone(since) = self.state {
            let work = iteration.end.saturating_sub(begin.max(since));
            self.worked = self.worked.saturating_add(work);
        }
    }

    /// Notes an iteration that has ended and whose latency alone isn't known. If there are two in
    /// sequence, the next measurement begins at once: nothing says what passes costs these.
    fn note_unknown(&mut self, end: u64) {
        self.unknown = self.unknown.saturating_add(1);
        if self.unknown == 2 && self.hasty >= OTHERS {
            self.next_alone = self.next_alone.min(end);
        }
    }

    /// Notes an iteration that began in the measurement, after this time of it.
    fn note_alone(&mut self, iteration: &Iteration, after: u64) {
        let quiet = if self.begun == 0 { QUIET_SURELY } else { QUIET_SOON };
        self.begun += 1;
        if after < quiet {
            return;
        }
        self.measured += 1;
        let (kind, length) = (u64::from(iteration.kind), iteration.length as f64);
        let Some(check) = &mut self.check else { return self.alone.note(kind, length) };
        let verdict = self.alone.verdict(kind, length, self.target);
        verdict.into_iter().for_each(|verdict| check.note(verdict));
    }

    /// Returns whether nothing has passed since well before an iteration that began at this time
    /// and has ended. Only if windows begin after iterations: otherwise longer iterations would be
    /// touched more often, and those that are not would be shorter than others alone.
    fn is_untouched(&self, begin: u64) -> bool {
        self.is_after_iterations && begin >= self.passed.saturating_add(QUIET_SURELY)
    }

    /// Notes an iteration that was alone without a measurement: the next one comes as much later as
    /// after a measurement of this length.
    fn note_untouched(&mut self, iteration: &Iteration) {
        let (kind, length) = (u64::from(iteration.kind), iteration.length as f64);
        let verdict = self.alone.verdict(kind, length, self.target);
        self.shown.extend(verdict.map(|verdict| verdict.relative));
        self.alone.note(kind, length);
        self.known += 1;
        let next = add_cost(iteration.end, iteration.length, INTERVALS[2]);
        self.next_alone = self.next_alone.max(next);
        if self.alone.fresh() >= ALONE_ITERATIONS {
            self.take_over(iteration.end);
        }
    }

    fn begin_alone(&mut self, now: u64) {
        (self.measured, self.begun, self.worked, self.check) = (0, 0, 0, None);
        self.state = State::Alone(now);
    }

    /// Begins a check of the last late iterations in sequence, which is the only one of these: a
    /// restart of the program, or other peers, may end it.
    fn begin_check(&mut self, now: u64) {
        self.balances.forget_chance();
        self.begin_alone(now);
        self.check = Some(Mean::default());
    }

    /// Ends a measurement alone if it has an iteration, or lasts for too long.
    fn end_alone(&mut self, since: u64, now: u64) {
        let length = now.saturating_sub(since);
        let most = self.last_length.saturating_mul(LONG_ITERATIONS).min(MAX_LONG_ALONE);
        if !(self.measured > 0 && length >= MIN_ALONE || length >= most.max(MAX_ALONE)) {
            return;
        }
        if self.measured == 0 {
            self.last_length = 0; // it may have no iterations any more
        }
        let check = self.check.take();
        if check.is_none() {
            self.known += self.measured;
        }
        if self.alone.fresh() >= ALONE_ITERATIONS {
            self.take_over(now);
        }
        // Peers are held while the program works, however long, and for a while if it doesn't. In
        // doubt they are held anyway.
        let worked = if self.is_in_doubt { 0 } else { self.worked };
        let cost = length.min(MAX_SILENCE.max(worked));
        self.long_silences += u64::from(cost > MAX_SILENCE);
        self.state = State::Colocated(now);
        match check {
            Some(alone) => self.end_check(alone, now, cost),
            None => self.next_alone = add_cost(now, cost, self.interval()),
        }
    }

    /// Ends a check that took this time. If late iterations were within the target of these alone,
    /// they do not count, nor do those of the next moment. If there was none alone, they do. They
    /// do not at a first doubt.
    fn end_check(&mut self, alone: Mean, now: u64, cost: u64) {
        let growth = self.sequence.late.value() / alone.value();
        if growth <= self.target || self.is_wide && self.is_first_doubt(growth) {
            self.forget_sequence();
            if growth <= self.target {
                self.state = State::Colocated(add_cost(now, cost, INTERVALS[0]));
            }
        } else if self.is_wide {
            self.narrow(now);
        }
    }

    /// Counts the last late iterations in sequence as if they had not been.
    fn forget_sequence(&mut self) {
        self.balances = self.sequence.before.clone();
        (self.stretch, self.wide_excess) = (self.sequence.stretch, self.sequence.excess);
    }

    /// Notes a check by which late iterations have grown by too much while all passes, or that had
    /// none alone. Returns whether it is the only one for a while and does not say that all is far
    /// too much: the host was slow until it, perhaps.
    fn is_first_doubt(&mut self, growth: f64) -> bool {
        let least = self.doubted.map_or(LONG_WIDE, |before| before + LASTING_WIDE);
        self.doubted = Some(self.tried);
        let is_far = growth > 1.0 + FAR * (self.target - 1.0);
        self.tried >= least && !is_far
    }

    /// Returns the time of colocation before the next measurement, as a multiple of the last one's.
    fn interval(&mut self) -> f64 {
        self.spread = (self.spread + GOLDEN).fract();
        let is_hasty = self.unknown > 1 && self.hasty >= OTHERS;
        let more = (self.hasty + 1).min(MAX_HASTY * OTHERS);
        self.hasty = if is_hasty { self.hasty - OTHERS } else { more };
        let all_or_nothing = self.is_wide || self.has_dear_windows;
        let mean = match self.known {
            _ if self.is_in_doubt || self.alone.is_odd() || is_hasty => INTERVALS[0],
            known if all_or_nothing && known >= SOME_ITERATIONS => INTERVALS[3],
            known => INTERVALS[1 + usize::from(known >= MANY_ITERATIONS)],
        };
        mean * (1.0 + SPREAD * (2.0 * self.spread - 1.0))
    }

    /// Takes over what was measured alone.
    fn take_over(&mut self, now: u64) {
        if self.alone.settle() {
            self.known = 0;
        }
        let was_in_doubt = self.is_in_doubt;
        self.is_in_doubt &= self.alone.is_unknown() || self.alone.is_odd();
        if was_in_doubt && !self.is_in_doubt {
            (self.tried, self.doubted) = (0, None);
            self.begin_windows(now);
        }
        self.balances.forget_unseen();
    }

    /// Notes that windows, or all, begin to pass: a trial waits until their part is found.
    fn begin_windows(&mut self, now: u64) {
        (self.opened, self.earlier, self.is_steady) = (now, 0.0, false);
    }

    /// Sets the part by one iteration. It is at most `most`, or as it was.
    fn adapt(&mut self, kind: u32, verdict: Verdict, most: f64) {
        self.shown.push(verdict.relative);
        self.unknown = 0;
        let part = self.part();
        self.tried += 1;
        if self.tried.is_multiple_of(RISE_ITERATIONS) {
            self.is_steady = part <= STILL_RISES * self.earlier;
            self.earlier = part;
        }
        if part > 2.0 * PROBE && !self.is_wide {
            self.pause = MIN_PAUSE;
        }
        if verdict.is_late {
            self.note_late(verdict);
        }
        if self.is_wide {
            self.wide_excess += f64::from(u8::from(verdict.is_late)) - verdict.share;
        }
        if verdict.known >= SOME_ITERATIONS && !self.is_bounded {
            self.stretch.note(verdict, part);
        }
        self.balances.note(kind, verdict, most);
    }

    /// Notes a late iteration before the balances and the stretch do.
    fn note_late(&mut self, verdict: Verdict) {
        if !self.balances.is_in_sequence() {
            let (late, before) = (Mean::default(), self.balances.clone());
            let (stretch, excess) = (self.stretch, self.wide_excess);
            self.sequence = Sequence { late, before, stretch, excess };
        }
        self.sequence.late.note(verdict);
    }

    /// Measures growth, and ends this state if it is time to, if the least part is too much, or if
    /// windows don't pay. Lets all pass, or no longer. Begins a check of late iterations. A trial
    /// is one of a program that has worked.
    fn end_colocation(&mut self, now: u64, work: u64, has_worked: bool) {
        if self.shown.len() >= SHOWN_ITERATIONS {
            self.growth = quantile(&mut self.shown, 0.99).unwrap_or(1.0);
            self.shown.clear();
        }
        if self.balances.chance() <= MIN_CHANCE {
            return self.begin_check(now);
        }
        if self.has_dear_windows && now >= self.dear_until {
            self.end_dear(now);
        }
        if self.is_wide && self.part() < MIN_WIDE {
            self.narrow(now);
        }
        if self.has_dear_windows && !self.is_wide {
            self.end_closed(now);
        } else if self.part() < MIN_PART {
            self.begin_pause(now.saturating_add(self.pause), RETRY);
            self.pause = (self.pause * 2).min(MAX_PAUSE);
        } else if self.is_too_dear() {
            self.dear_until = now.saturating_add(self.dear);
            self.dear = (self.dear * 2).min(MAX_DEAR);
            (self.has_dear_windows, self.trial) = (true, None);
            self.balances = Balances::after_late(PROBE);
        } else if let Some(trial) = &mut self.trial {
            let outcome = trial.note(now, work, self.works_until);
            outcome.into_iter().for_each(|outcome| self.end_trial(outcome, now, work));
        } else if has_worked && self.is_trial_due(now) {
            self.trial = Some(Trial::new(now, work));
        } else if self.is_wide_due(now) {
            self.widen(now);
        } else if now >= self.next_alone {
            self.begin_alone(now);
        }
    }

    /// Lets windows open again, from the part after a pause. If all passes, that goes on.
    fn end_dear(&mut self, now: u64) {
        self.has_dear_windows = false;
        if !self.is_wide {
            self.balances = Balances::after_late(PROBE);
            self.begin_windows(now);
        }
    }

    /// Lets all pass, or measures alone, if it is time to. There are no windows, so nothing passes.
    fn end_closed(&mut self, now: u64) {
        if self.is_wide_due(now) {
            self.widen(now);
        } else if now >= self.next_alone {
            self.begin_alone(now);
        }
    }

    fn is_wide_due(&self, now: u64) -> bool {
        let has_rested = now >= self.next_wide && self.before_wide == 0;
        (has_rested || self.part() >= WIDEST) && !self.is_wide && !self.is_in_doubt
    }

    /// Lets all pass from now on.
    fn widen(&mut self, now: u64) {
        self.found = self.part().min(ALMOST_WIDE);
        self.balances = Balances::at(1.0);
        (self.is_wide, self.tried, self.stretch) = (true, 0, Stretch::default());
        (self.doubted, self.wide_excess) = (None, 0.0);
        self.begin_windows(now);
    }

    /// Returns to windows, because too many iterations were late.
    fn narrow(&mut self, now: u64) {
        let part = if self.tried < LONG_WIDE { self.found } else { ALMOST_WIDE };
        if self.tried >= LASTING_WIDE {
            self.wide_rest = MIN_WIDE_REST;
        }
        self.balances = Balances::at(part);
        (self.is_wide, self.trial, self.stretch) = (false, None, Stretch::default());
        self.opened = now;
        self.next_wide = now.saturating_add(self.wide_rest);
        self.wide_rest = (self.wide_rest * MORE_REST).min(MAX_WIDE_REST);
        let others = (EACH_LATE * self.wide_excess) as usize;
        self.before_wide = others.clamp(WIDE_INTERVAL, MAX_WIDE_INTERVAL);
    }

    /// Returns whether windows have found their part, and it is smaller than what they cost. Not
    /// while iterations are late in sequence: a check may find that they do not count.
    fn is_too_dear(&mut self) -> bool {
        let is_undecided = self.is_wide || self.balances.is_in_sequence();
        if is_undecided || self.stretch.weight < JUDGED_WEIGHT {
            return false;
        }
        let Stretch { count, parts, excess, .. } = std::mem::take(&mut self.stretch);
        let is_dear = parts < self.least * count && self.part() < self.least;
        if !is_dear {
            self.dear = MIN_DEAR;
        }
        // With fewer late iterations than that the part still rises, or is bounded otherwise.
        is_dear && excess >= -0.5 * LATE_SHARE * count
    }

    fn is_trial_due(&self, now: u64) -> bool {
        let time = now.saturating_sub(self.opened);
        let is_found = self.is_steady || time >= MAX_BEFORE_TRIAL;
        now >= self.next_trial && time >= BEFORE_TRIAL && is_found && !self.is_in_doubt
    }

    fn end_trial(&mut self, outcome: Outcome, now: u64, work: u64) {
        self.trial = None;
        match outcome {
            Outcome::Pays => {
                self.next_trial = now.saturating_add(self.between);
                self.between = (self.between * LESS_OFTEN).min(MAX_BETWEEN);
                self.rest = MIN_REST;
            }
            Outcome::Nothing => self.next_trial = now.saturating_add(MIN_BETWEEN),
            Outcome::PaysNot(usual) => {
                self.between = MIN_BETWEEN;
                self.begin_pause(now.saturating_add(self.rest), PROBE);
                self.rest = (self.rest * 2).min(MAX_REST);
                self.watch = Some(Watch { usual, begin: now, work });
            }
        }
    }

    /// Begins a pause, after which windows have this part at first.
    fn begin_pause(&mut self, until: u64, part: f64) {
        self.balances = Balances::after_late(part);
        (self.is_in_doubt, self.trial) = (true, None);
        (self.is_wide, self.stretch) = (false, Stretch::default());
        self.state = State::Pause(until);
    }
}

impl Stretch {
    /// Adds an iteration in which this part passed.
    fn note(&mut self, verdict: Verdict, part: f64) {
        self.count += 1.0;
        self.weight += verdict.weight().powi(2);
        self.parts += part;
        self.excess += f64::from(u8::from(verdict.is_late)) - verdict.share;
    }
}

impl Mean {
    fn note(&mut self, verdict: Verdict) {
        (self.sum, self.count) = (self.sum + verdict.relative, self.count + 1.0);
    }

    /// Returns the mean. Not a number: of none.
    fn value(self) -> f64 {
        self.sum / self.count
    }
}

/// Returns the least part that is worth what this target costs.
fn find_least_part(target: f64, is_under_mps: bool) -> f64 {
    let cost = 1.0 - 1.0 / target;
    if is_under_mps {
        (WORTH_OF_THREADS * cost).min(MAX_LEAST_OF_THREADS)
    } else {
        (WORTH * cost).min(MAX_LEAST)
    }
}

/// Returns the time after this one by a multiple of a measurement's cost.
fn add_cost(now: u64, cost: u64, multiple: f64) -> u64 {
    now.saturating_add((cost as f64 * multiple) as u64)
}
