//! Balances: part of the time that iterations allow, by which of them are late.
//!
//! A late iteration makes the part smaller, any other iteration makes it larger by so much less
//! that both are in balance if as many are late as is allowed. Each kind has a balance of its own
//! besides that of all: rare iterations that are always late bound the part, although they are few.

use reef_latency::{LATE_SHARE, Verdict};

/// Iterations alone of a kind that has a balance of its own: with fewer its limit would be chance.
const KNOWN_ITERATIONS: usize = 40;
/// Fall of the part's logarithm for a late iteration.
const FALL: f64 = 0.05;
/// Rise of the part's logarithm for any other iteration, right after a late one. It doubles after
/// as many iterations as have one late iteration, and so on in equal steps, up to [`MAX_HASTE`]
/// times. Then a late iteration in a hundred, at random, balances it.
const RISE: f64 = FALL * LATE_SHARE / 2.0;
const MAX_HASTE: f64 = 10.0;
/// Iterations within which the next late one makes the part fall faster: by half, up to
/// [`MAX_FALL`] times. So do late ones in sequence that are as rare by chance.
const SOON: f64 = 4.0;
const MAX_FALL: f64 = 8.0;
/// Iterations that seem to have been on time before the first one.
const FIRST_RUN: u32 = 400;

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
#[derive(Clone, Copy, Debug)]
struct Bound {
    kind: u32,
    balance: Balance,
    /// It had an iteration since kinds were last forgotten.
    is_seen: bool,
}

/// Balance of all iterations, and of each kind that was seen lately.
#[derive(Clone, Debug)]
pub(super) struct Balances {
    all: Balance,
    bounds: Vec<Bound>,
}

impl Balances {
    /// Creates balances at this part.
    pub(super) fn at(part: f64) -> Self {
        Self { all: Balance::at(part), bounds: Vec::new() }
    }

    /// Creates balances at this part as after a late iteration: they rise slowly.
    pub(super) fn after_late(part: f64) -> Self {
        Self { all: Balance { run: 0, ..Balance::at(part) }, bounds: Vec::new() }
    }

    /// Returns the part that all of them allow.
    pub(super) fn part(&self) -> f64 {
        self.bounds.iter().fold(self.all.part, |part, bound| part.min(bound.balance.part))
    }

    /// Returns whether the last iteration was late.
    pub(super) fn is_in_sequence(&self) -> bool {
        self.all.late > 0
    }

    /// Returns the chance of the late iterations in sequence, were they late as rarely as is
    /// allowed.
    pub(super) fn chance(&self) -> f64 {
        self.all.chance
    }

    /// Forgets the chance of those so far.
    pub(super) fn forget_chance(&mut self) {
        self.all.chance = 1.0;
    }

    /// Forgets kinds that were not seen since this was last done.
    pub(super) fn forget_unseen(&mut self) {
        self.bounds.retain(|bound| bound.is_seen);
        self.bounds.iter_mut().for_each(|bound| bound.is_seen = false);
    }

    /// Moves by one iteration. The part is at most `most`, or as it was.
    pub(super) fn note(&mut self, kind: u32, verdict: Verdict, most: f64) {
        let part = self.part();
        self.all.note(verdict, most);
        if verdict.known < KNOWN_ITERATIONS {
            return;
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
