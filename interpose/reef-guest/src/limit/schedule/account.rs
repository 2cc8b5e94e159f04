//! Device time of a process in the accounts file: when it may begin work, and the time that its
//! work took.
//!
//! A process whose job's part allows work also needs the device's turn. Otherwise the driver would
//! slice the time between processes, at a cost for all of them. A turn isn't divided: its process
//! continues for a while, with a debt if necessary, and then as long as no waiting process is owed
//! more. It leaves the turn when its work has ended, so the next process finds the device idle.

use super::super::accounts::{Accounts, Member, Tally};
use super::super::slot::Account;
use super::super::usage::bucket::Bucket;
use super::super::usage::measure::{GAP, WorkState};
use super::super::usage::presence::is_recent;
use super::super::usage::timeout::Obstacle;
use super::super::usage::turn::{Idle, Turn, TurnHolder};
use std::cmp::Reverse;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Minimum length of a turn if other processes want the device: the job's part of `ROUND`, so that
/// turns are in proportion under overload. It is long compared to the 0.3 to 0.5 ms that the next
/// turn begins late. Nanoseconds.
const ROUND: u64 = 30_000_000;
const MIN_TURN: u64 = 8_000_000;
/// Time without a poll after which a process counts as stopped or ended: it polls its work every
/// millisecond. Nanoseconds.
const STOPPED_TIMEOUT: u64 = 30_000_000;
/// Time after which a turn that should have ended is taken: a kernel may take long. Nanoseconds.
const TURN_TIMEOUT: u64 = 500_000_000;
/// Time from one check whether a turn continues to the next: reading all slots takes about as long
/// as a launch. Nanoseconds.
const RECHECK_INTERVAL: u64 = 100_000;
/// Time that a process saves before it continues, if it waits for its job's part alone: at most a
/// burst, which a pause saves. It keeps waits rare: each seems to cost up to 0.3 ms that is charged
/// as work (with 8 ms here, 30 % of short kernels were 26.3 on an H200). Nanoseconds.
const MIN_SAVED: u64 = 20_000_000;
/// Interval between requests for a turn that another process has.
const RETRY_INTERVAL: Duration = Duration::from_micros(100);

/// Policy for time that no other job wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// A job never has more than its part.
    Hard,
    /// A job has more than its part while no other job with a limit has a claim to the time.
    WorkConserving,
}

impl Account {
    /// Returns whether the job's device time is limited.
    pub fn has_time_limit(&self) -> bool {
        self.part() > 0
    }

    /// Returns the job's part of the device's time, in parts per million. Zero: no limit.
    pub fn part_of_time(&self) -> u32 {
        u32::try_from(self.part()).unwrap_or(u32::MAX)
    }

    /// Returns the time until the job's part allows work of this process, whether or not others
    /// work: zero if it may begin now. `now` is a [`Time`](crate::page::Time), in nanoseconds.
    pub fn wait_for_part(&self, now: u64, policy: Policy) -> Duration {
        self.member().presence.wanted.store(now, Relaxed);
        let wait = self.fill(now);
        let is_spare = !wait.is_zero() && policy == Policy::WorkConserving && !self.is_wanted(now);
        if is_spare { Duration::ZERO } else { wait }
    }

    /// Returns the time until this process may begin work with the device's turn, which it has once
    /// the result is zero. Otherwise it must ask again after that time at the latest, or other
    /// processes go first.
    pub fn wait_for_turn(&self, now: u64, policy: Policy) -> Duration {
        let presence = &self.member().presence;
        presence.wanted.store(now, Relaxed);
        let (turn, held) = (self.turn(), self.turn().read());
        let is_ours = held.member() == Some(self.place());
        if is_ours && now < presence.goes_on_until.load(Relaxed) && presence.idle.since().is_none()
        {
            return Duration::ZERO;
        }
        let wait = self.fill(now);
        if is_ours
            && self.may_continue(held, now, policy)
            && turn.begin(self.place(), &presence.idle)
        {
            presence.goes_on_until.store(now + RECHECK_INTERVAL, Relaxed);
            return Duration::ZERO;
        }
        self.leave_if_idle();
        if policy == Policy::Hard {
            let rest =
                if is_ours || self.is_contended(now) { wait } else { self.wait_until_saved() };
            if !rest.is_zero() {
                return rest;
            }
        }
        let since = presence.claim(now);
        if !is_ours && self.is_first(now) && self.try_take(held, now, since) {
            presence.claim_no_more();
            presence.had.store(now, Relaxed);
            if turn.begin(self.place(), &presence.idle) {
                return Duration::ZERO;
            }
        }
        turn.claimed.store(now, Relaxed);
        RETRY_INTERVAL
    }

    /// Returns the reason for which a launch waits that may not begin, given the state of this
    /// process's work and its progress. A work-conserving job never waits for a debt.
    pub fn obstacle(&self, policy: Policy, state: WorkState, progress: u32) -> Obstacle {
        let has_debt = policy == Policy::Hard && !self.bucket().wait(self.part()).is_zero();
        match (has_debt, state) {
            (false, _) => Obstacle::Schedule,
            (true, WorkState::Working) => Obstacle::Work(progress),
            (true, _) => Obstacle::Debt,
        }
    }

    /// Fills the job's bucket. Returns the time until its part allows work.
    fn fill(&self, now: u64) -> Duration {
        let presence = &self.member().presence;
        let is_pause = presence.idle.since().is_some_and(|since| now.saturating_sub(since) > GAP);
        self.bucket().fill(now, self.part(), is_pause && !presence.claims(now));
        self.bucket().wait(self.part())
    }

    /// Returns the time until the job's part allows work for [`MIN_SAVED`].
    fn wait_until_saved(&self) -> Duration {
        self.bucket().wait_for(MIN_SAVED, self.part())
    }

    /// Returns whether this process, which has the turn, may begin more work in it.
    fn may_continue(&self, held: TurnHolder, now: u64, policy: Policy) -> bool {
        let is_new = now.saturating_sub(held.began()) < self.turn_lasts();
        let is_owed = self.bucket().wait(self.part()).is_zero();
        if is_new {
            is_owed || policy == Policy::WorkConserving || self.is_contended(now)
        } else {
            (is_owed || policy == Policy::WorkConserving) && !self.is_asked_for(now)
        }
    }

    fn turn_lasts(&self) -> u64 {
        (ROUND * self.part() / 1_000_000).max(MIN_TURN)
    }

    /// Returns whether a process that is owed at least as much as this one waits for the turn.
    fn is_asked_for(&self, now: u64) -> bool {
        let own = self.bucket().claim(self.part());
        let is_claimed = is_recent(self.turn().claimed.load(Relaxed), now);
        is_claimed && self.claimants(now).any(|member| claim(self.accounts(), member) >= own)
    }

    /// Returns whether no other waiting process is owed more. Of equals, the one without a turn for
    /// longest is first.
    fn is_first(&self, now: u64) -> bool {
        let rank = |member: &Member| {
            (claim(self.accounts(), member), Reverse(member.presence.had.load(Relaxed)))
        };
        let own = rank(self.member());
        !self.claimants(now).any(|member| rank(member) > own)
    }

    /// Takes the turn if it is free, or if its holder doesn't use it, as far as can be seen. This
    /// process has waited since `since`.
    fn try_take(&self, held: TurnHolder, now: u64, since: u64) -> bool {
        let passed = |then: u64| now.saturating_sub(then.max(held.began()));
        let take = |holder: Option<&Idle>| self.turn().take(self.place(), now, held, holder);
        let holder = held.member().and_then(|at| self.accounts().members.get(at));
        let Some(holder) = holder.filter(|member| member.job().is_some()) else {
            return take(None);
        };
        let presence = &holder.presence;
        // A holder that is owed more than this process continues, however long that takes.
        let is_owed = claim(self.accounts(), self.member()) >= claim(self.accounts(), holder);
        let is_late = is_owed && passed(since) >= TURN_TIMEOUT;
        match presence.idle.since() {
            Some(idle) if passed(idle) >= GAP => take(Some(&presence.idle)),
            _ if is_late || passed(presence.polled.load(Relaxed)) >= STOPPED_TIMEOUT => take(None),
            _ => false,
        }
    }

    /// Returns the other members that wait for the turn.
    fn claimants(&self, now: u64) -> impl Iterator<Item = &Member> {
        self.others_with(move |member| member.presence.claims(now))
    }

    fn others_with(&self, is_so: impl Fn(&Member) -> bool) -> impl Iterator<Item = &Member> {
        let is_other = |member: &&Member| !std::ptr::eq(*member, self.member());
        let all = self.accounts().members.iter().filter(move |member| member.job().is_some());
        all.filter(is_other).filter(move |member| is_so(member))
    }

    fn leave_if_idle(&self) {
        if self.member().presence.idle.since().is_some() {
            self.turn().leave(self.place());
        }
    }

    /// Notes the state at a poll. A process with nothing more to do in its turn leaves it.
    pub fn note_poll(&self, now: u64, seen: WorkState, policy: Policy) {
        let presence = &self.member().presence;
        presence.polled.store(now, Relaxed);
        if seen == WorkState::Working {
            return presence.idle.end();
        }
        presence.idle.begin(now);
        let held = self.turn().read();
        if held.member() == Some(self.place())
            && (seen == WorkState::Held || !self.may_continue(held, now, policy))
        {
            self.turn().leave(self.place());
        }
    }

    /// Notes that this process has work from now on.
    pub fn note_work(&self) {
        self.member().presence.idle.end();
    }

    /// Returns the number of other processes with limits that have work in flight, of this job and
    /// of others. A process that was stopped, or has ended, has none.
    pub fn other_workers(&self, now: u64) -> u64 {
        let works = |member: &Member| {
            let polled = member.presence.polled.load(Relaxed);
            member.presence.idle.since().is_none() && now.saturating_sub(polled) < STOPPED_TIMEOUT
        };
        self.others_with(works).count() as u64
    }

    /// Charges the job for `nanos` of the device's time until `now`.
    pub fn charge(&self, now: u64, nanos: u64, policy: Policy) {
        self.member().presence.worked.store(now, Relaxed);
        self.tally().ran.fetch_add(nanos, Relaxed);
        match policy {
            Policy::Hard => self.bucket().take(nanos),
            Policy::WorkConserving if self.is_wanted(now) => {
                self.bucket().take_spare(nanos, self.part());
            }
            Policy::WorkConserving => {}
        }
    }

    /// Counts the time for which a launch waited for the job's part.
    pub fn note_waited(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.tally().waited.fetch_add(nanos, Relaxed);
    }

    fn turn(&self) -> &Turn {
        &self.accounts().turn
    }

    fn bucket(&self) -> &Bucket {
        &self.accounts().jobs[self.job()].bucket
    }

    fn tally(&self) -> &Tally {
        &self.accounts().jobs[self.job()].tally
    }

    /// Returns whether another process works or waits.
    fn is_contended(&self, now: u64) -> bool {
        self.others_with(|member| member.presence.wants(now)).next().is_some()
    }

    /// Returns whether a process of another job works or waits.
    fn is_wanted(&self, now: u64) -> bool {
        let wants = |member: &Member| member.presence.wants(now);
        self.others_with(wants).any(|member| member.job() != Some(self.job()))
    }
}

/// Returns the time that a process's job is owed, in nanoseconds of waiting.
fn claim(accounts: &Accounts, member: &Member) -> i64 {
    let job = member.job().and_then(|job| accounts.jobs.get(job));
    job.map_or(i64::MIN, |job| job.bucket.claim(job.part()))
}
