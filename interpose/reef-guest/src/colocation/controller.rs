//! Controller: finds the part of the time that keeps a real-time program's latency at its target.
//!
//! It compares *iterations*: from a thread's first launch to the end of its wait for the device.
//! Iterations with the same number of launches are of one kind. For moments, spread evenly, nothing
//! passes, and the iterations of each kind are measured alone: one or a few at a time, so that
//! best-effort work never stands still for long, and more of them the less is known. Between these
//! each iteration is late or not: an iteration is late if it is longer than the target times what
//! few iterations of its kind exceed alone ([`Baseline`]). A late iteration makes the part smaller,
//! any other iteration makes it larger by so much less that both are in balance if one iteration in
//! a hundred is late. The balance holds the 99th percentile at the target, whatever iterations
//! depend on apart from the part. Each kind has a balance of its own besides that of all: rare
//! iterations that are always late bound the part, although they are few.
//!
//! Before it searches for a part it lets *all* pass: a program that is slow enough by itself, such
//! as one with few threads, needs no windows, and they would take from it and give nothing. All
//! passes as long as the target is missed by no more than [`TOLERANCE`]. A few late iterations soon
//! after each other end that, and the next attempt comes much later.
//!
//! As long as nothing is known, and while even the least part is too much, no window opens: the
//! program runs as one without a target. So it does if a [`Trial`] shows that best-effort programs
//! do no more with windows than without: they may do enough while the real-time program is idle.
//! And so it does if the part at the target is smaller than [`WORTH`] times what the target costs.

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
/// Time after which the device has ended what passed before, in nanoseconds: for an iteration that
/// follows another one of the measurement, and for the first one.
const QUIET_SOON: u64 = 1_000_000;
const QUIET_SURELY: u64 = 5_000_000;
/// Times of colocation for each time of measurement: while the latency alone is unknown or in
/// doubt, while there are fewer than [`MANY_ITERATIONS`], later, and while all passes and there are
/// at least [`SOME_ITERATIONS`].
const INTERVALS: [f64; 4] = [3.0, 15.0, 47.0, 95.0];
const MANY_ITERATIONS: usize = 400;
const SOME_ITERATIONS: usize = 100;
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
/// Largest part by that which has really passed.
const MAX_RISE: f64 = 1.5;
/// Fall of the part's logarithm for a late iteration.
const FALL: f64 = 0.05;
/// Rise of the part's logarithm for any other iteration, right after a late one. It doubles after
/// as many iterations as have one late iteration, and so on in equal steps, up to [`MAX_HASTE`]
/// times. Then a late iteration in a hundred, at random, balances it.
const RISE: f64 = FALL * LATE_SHARE / 2.0;
const MAX_HASTE: f64 = 10.0;
/// Iterations alone of a kind that has a balance of its own: with fewer its limit would be chance.
const KNOWN_ITERATIONS: usize = 40;
/// Iterations within which the next late one makes the part fall faster: by half, up to
/// [`MAX_FALL`] times. So do late ones in sequence that are as rare by chance.
const SOON: f64 = 4.0;
const MAX_FALL: f64 = 8.0;
/// Iterations that seem to have been on time before the first one.
const FIRST_RUN: u32 = 400;
/// Distance from the target within which all passes, at most, and as a part of what the target
/// allows iterations to be longer. The balance of windows is as uncertain.
const TOLERANCE: f64 = 0.02;
const TOLERANT_PART: f64 = 0.2;
/// Part by the balances at which all passes, and the one at which that ends. They begin at one.
const WIDEST: f64 = 0.99;
const MIN_WIDE: f64 = 0.7;
/// Chance of late iterations in sequence, were they late as rarely as is allowed, at which that
/// ends as well: after three, so that they are fewer than one in a hundred of the first second.
const MIN_CHANCE: f64 = 1e-4;
/// Iterations after which all that passed was almost right: the search goes on from [`MIN_WIDE`],
/// and not from where it was before.
const LONG_WIDE: usize = 400;
/// Least part for each part by which the target allows iterations to be longer, and the most that
/// this asks for. With less the program runs as one without a target.
const WORTH: f64 = 0.5;
const MAX_LEAST: f64 = 0.8 * PROBE;
/// Weight of the iterations by which that is judged: their number if none is late alone.
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
const MORE_REST: u64 = 4;
/// Iterations from an attempt that failed to the next one, at least: it makes some three late, and
/// of long iterations there are few others in that time.
const WIDE_INTERVAL: usize = 2000;
/// Pauses after a part that was not worth its cost. They double as well, and are so long because
/// more than one iteration in a hundred may be slower until that is known again.
const MIN_DEAR_PAUSE: u64 = 120_000_000_000;
const MAX_DEAR_PAUSE: u64 = 960_000_000_000;
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

/// Part of the time that iterations allow.
#[derive(Clone, Copy, Debug)]
struct Balance {
    /// 0 to 1.
    part: f64,
    /// Iterations since the last late one, and late ones in sequence.
    run: u32,
    late: u32,
    /// Chance of these late ones, were they late as rarely as is allowed.
    chance: f64,
    /// Haste of the fall: late iterations soon after each other.
    fall: f64,
}

/// Balance of one kind of iterations.
#[derive(Debug)]
struct Bound {
    kind: u32,
    balance: Balance,
    /// It had an iteration since measurements alone were last taken over.
    is_seen: bool,
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
    /// The part passes, since this time, until that of the next measurement alone.
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
    /// Measurements for which peers were held for longer than [`MAX_SILENCE`].
    long_silences: u64,
    /// Place in the sequence that spreads measurements, from 0 to 1.
    spread: f64,
    /// Last iterations, each divided by what few of its kind exceed alone, since growth was
    /// measured.
    shown: Vec<f64>,
    /// Of all iterations, and of each kind that was seen lately.
    all: Balance,
    bounds: Vec<Bound>,
    /// All passes. The balances then say whether it may, by a target with the tolerance.
    is_wide: bool,
    wide_target: f64,
    /// Part to which windows return after that, the time before which it isn't tried again, and the
    /// time from the next failure to another attempt.
    found: f64,
    next_wide: u64,
    wide_rest: u64,
    /// Iterations since an attempt failed.
    since_wide: usize,
    /// Least part that is worth what the target costs, and what was seen since that was judged.
    least: f64,
    stretch: Stretch,
    /// Length of the next pause if it isn't.
    dear_pause: u64,
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
            state: State::Alone(now),
            alone: Baseline::new(MAX_ODD, 0.0),
            is_in_doubt: true,
            measured: 0,
            begun: 0,
            known: 0,
            worked: 0,
            long_silences: 0,
            spread: 0.0,
            shown: Vec::new(),
            all: Balance::at(PROBE),
            bounds: Vec::new(),
            is_wide: false,
            wide_target: target + TOLERANCE.min(TOLERANT_PART * (target - 1.0)),
            found: PROBE,
            next_wide: 0,
            wide_rest: MIN_WIDE_REST,
            since_wide: WIDE_INTERVAL,
            least: (WORTH * (1.0 - 1.0 / target)).min(MAX_LEAST),
            stretch: Stretch::default(),
            dear_pause: MIN_DEAR_PAUSE,
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

    /// Returns the part of the time that passes now, in parts per million.
    pub fn duty(&self) -> u32 {
        match self.state {
            State::Colocated(_) if !self.has_windows() => 0,
            State::Colocated(_) if self.is_wide => WHOLE,
            State::Colocated(_) => (self.part() * f64::from(WHOLE)) as u32,
            _ => 0,
        }
    }

    fn has_windows(&self) -> bool {
        !self.is_in_doubt && self.trial.as_ref().is_none_or(Trial::has_windows)
    }

    fn part(&self) -> f64 {
        self.bounds.iter().fold(self.all.part, |part, bound| part.min(bound.balance.part))
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
        self.long_silences = before.long_silences;
        if self.trial.take().is_some() {
            // Or sets that take turns would be in a trial all the time, and end none.
            self.next_trial = now.saturating_add(MIN_BETWEEN);
        }
        self.stretch = Stretch::default();
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
        let most = (MAX_RISE * PROBE.max(f64::from(applied) / f64::from(WHOLE))).min(1.0);
        iterations.iter().for_each(|iteration| self.note_iteration(iteration, most));
        self.since_wide = self.since_wide.saturating_add(iterations.len());
        let state = self.state;
        match state {
            State::Alone(since) => self.end_alone(since, now),
            State::Colocated(_) => self.end_colocation(now, work),
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
        match self.state {
            // Iterations that began before belong to the state before.
            State::Alone(since) if begin >= since => self.note_alone(iteration, begin - since),
            State::Colocated(since) if begin >= since && self.has_windows() => {
                let wide = (self.wide_target, 1.0);
                let (ratio, most) = if self.is_wide { wide } else { (self.target, most) };
                let verdict = self.alone.verdict(iteration.kind.into(), length, ratio);
                verdict.into_iter().for_each(|verdict| self.adapt(iteration.kind, verdict, most));
            }
            _ => {}
        }
        if let State::Alone(since) = self.state {
            let work = iteration.end.saturating_sub(begin.max(since));
            self.worked = self.worked.saturating_add(work);
        }
    }

    /// Notes an iteration that began in the measurement, after this time of it.
    fn note_alone(&mut self, iteration: &Iteration, after: u64) {
        let quiet = if self.begun == 0 { QUIET_SURELY } else { QUIET_SOON };
        self.begun += 1;
        if after >= quiet {
            self.alone.note(iteration.kind.into(), iteration.length as f64);
            self.measured += 1;
        }
    }

    fn begin_alone(&mut self, now: u64) {
        (self.measured, self.begun, self.worked) = (0, 0, 0);
        self.state = State::Alone(now);
    }

    /// Ends a measurement alone if it has an iteration, or lasts for too long.
    fn end_alone(&mut self, since: u64, now: u64) {
        let length = now.saturating_sub(since);
        if !(self.measured > 0 && length >= MIN_ALONE || length >= MAX_ALONE) {
            return;
        }
        self.known += self.measured;
        if self.alone.fresh() >= ALONE_ITERATIONS {
            self.take_over(now);
        }
        // Peers are held while the program works, however long, and for a while if it doesn't. In
        // doubt they are held anyway.
        let worked = if self.is_in_doubt { 0 } else { self.worked };
        let cost = length.min(MAX_SILENCE.max(worked));
        self.long_silences += u64::from(cost > MAX_SILENCE);
        self.next_alone = now.saturating_add((cost as f64 * self.interval()) as u64);
        self.state = State::Colocated(now);
    }

    /// Returns the time of colocation before the next measurement, as a multiple of the last one's.
    fn interval(&mut self) -> f64 {
        self.spread = (self.spread + GOLDEN).fract();
        let mean = match self.known {
            _ if self.is_in_doubt || self.alone.is_odd() => INTERVALS[0],
            known if self.is_wide && known >= SOME_ITERATIONS => INTERVALS[3],
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
            (self.opened, self.tried) = (now, 0);
            (self.earlier, self.is_steady) = (0.0, false);
        }
        self.bounds.retain(|bound| bound.is_seen);
        self.bounds.iter_mut().for_each(|bound| bound.is_seen = false);
    }

    /// Sets the part by one iteration. It is at most `most`, or as it was.
    fn adapt(&mut self, kind: u32, verdict: Verdict, most: f64) {
        self.shown.push(verdict.relative);
        let part = self.part();
        self.tried += 1;
        if self.tried.is_multiple_of(RISE_ITERATIONS) {
            self.is_steady = part <= STILL_RISES * self.earlier;
            self.earlier = part;
        }
        if part > 2.0 * PROBE && !self.is_wide {
            self.pause = MIN_PAUSE;
        }
        self.all.note(verdict, most);
        if verdict.known < KNOWN_ITERATIONS {
            return;
        }
        self.stretch.note(verdict, part);
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

    /// Measures growth, and ends this state if it is time to, if the least part is too much, or if
    /// windows don't pay. Lets all pass, or no longer.
    fn end_colocation(&mut self, now: u64, work: u64) {
        if self.shown.len() >= SHOWN_ITERATIONS {
            self.growth = quantile(&mut self.shown, 0.99).unwrap_or(1.0);
            self.shown.clear();
        }
        if self.is_wide && (self.part() < MIN_WIDE || self.all.chance <= MIN_CHANCE) {
            self.narrow(now);
        }
        if self.part() < MIN_PART {
            self.begin_pause(now.saturating_add(self.pause), RETRY);
            self.pause = (self.pause * 2).min(MAX_PAUSE);
        } else if self.is_too_dear() {
            self.begin_pause(now.saturating_add(self.dear_pause), PROBE);
            self.dear_pause = (self.dear_pause * 2).min(MAX_DEAR_PAUSE);
        } else if let Some(trial) = &mut self.trial {
            let outcome = trial.note(now, work);
            outcome.into_iter().for_each(|outcome| self.end_trial(outcome, now, work));
        } else if self.is_trial_due(now) {
            self.trial = Some(Trial::new(now, work));
        } else if self.is_wide_due(now) {
            self.widen();
        } else if now >= self.next_alone {
            self.begin_alone(now);
        }
    }

    fn is_wide_due(&self, now: u64) -> bool {
        let has_rested = now >= self.next_wide && self.since_wide >= WIDE_INTERVAL;
        (has_rested || self.part() >= WIDEST) && !self.is_wide && !self.is_in_doubt
    }

    /// Lets all pass from now on.
    fn widen(&mut self) {
        self.found = self.part().min(MIN_WIDE);
        (self.all, self.bounds) = (Balance::at(1.0), Vec::new());
        (self.is_wide, self.tried, self.stretch) = (true, 0, Stretch::default());
    }

    /// Returns to windows, because too many iterations were late.
    fn narrow(&mut self, now: u64) {
        let part = if self.tried < LONG_WIDE { self.found } else { MIN_WIDE };
        (self.all, self.bounds) = (Balance::at(part), Vec::new());
        (self.is_wide, self.trial, self.stretch) = (false, None, Stretch::default());
        self.opened = now;
        self.next_wide = now.saturating_add(self.wide_rest);
        self.wide_rest = (self.wide_rest * MORE_REST).min(MAX_WIDE_REST);
        self.since_wide = 0;
    }

    /// Returns whether windows have found their part, and it is smaller than what they cost.
    fn is_too_dear(&mut self) -> bool {
        if self.is_wide || self.stretch.weight < JUDGED_WEIGHT {
            return false;
        }
        let Stretch { count, parts, excess, .. } = std::mem::take(&mut self.stretch);
        let is_dear = parts < self.least * count;
        if !is_dear {
            self.dear_pause = MIN_DEAR_PAUSE;
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
        (self.all, self.bounds) = (Balance { run: 0, ..Balance::at(part) }, Vec::new());
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

impl Balance {
    fn at(part: f64) -> Self {
        Self { part, run: FIRST_RUN, late: 0, chance: 1.0, fall: 1.0 }
    }

    /// Moves by one iteration, by less the less it says.
    fn note(&mut self, verdict: Verdict, most: f64) {
        if verdict.is_late {
            return self.note_late(verdict);
        }
        let haste = (1.0 + f64::from(self.run) * verdict.share).min(MAX_HASTE);
        let rise = RISE * haste * verdict.weight() * verdict.share / LATE_SHARE;
        self.part = (self.part * rise.exp()).min(most.max(self.part));
        (self.run, self.late, self.chance) = (self.run.saturating_add(1), 0, 1.0);
    }

    fn note_late(&mut self, verdict: Verdict) {
        self.late = self.late.saturating_add(1);
        self.chance *= verdict.share;
        let after_another = (f64::from(self.run) + 1.0) * verdict.share;
        let in_sequence = if self.late > 1 { verdict.share.powf(self.late.into()) } else { 1.0 };
        let is_soon = after_another.min(in_sequence) <= SOON * LATE_SHARE;
        let most = MAX_FALL / verdict.weight();
        self.fall = if is_soon { (self.fall * 1.5).min(most) } else { 1.0 };
        self.run = 0;
        self.part *= (-FALL * self.fall * verdict.weight()).exp();
    }
}
