//! A process's use of its device's time, as the books have it.

use super::books::{Books, Member, Tally};
use super::seat::Account;
use super::usage::Others;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Who was seen at work, or waiting, so long ago still is.
const RECENT: u64 = 5_000_000;

/// Whether a job may have more than its part of the time while no other job wants the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Never more than its part.
    Hard,
    /// More, while nobody else with a limit works or waits.
    WorkConserving,
}

impl Account {
    /// Whether the job's device time is limited.
    pub fn has_time_limit(&self) -> bool {
        self.part() > 0
    }

    /// The job's part of the device's time, in parts per million. Zero: no limit.
    pub fn part_of_time(&self) -> u32 {
        u32::try_from(self.part()).unwrap_or(u32::MAX)
    }

    /// How long until work may begin: zero if it may now. `now` is a [`Time`](crate::page::Time), in nanoseconds.
    pub fn wait(&self, now: u64, policy: Policy) -> Duration {
        self.member().wanted.store(now, Relaxed);
        let wait = self.bucket().wait(now, self.part());
        let is_spare =
            !wait.is_zero() && policy == Policy::WorkConserving && !self.is_wanted_by_others(now);
        if is_spare { Duration::ZERO } else { wait }
    }

    /// Notes whether this process has work on its way.
    pub fn works(&self, works: bool) {
        let was = self.member().works.swap(works.into(), Relaxed);
        if works && was == 0 {
            self.member().begun.fetch_add(1, Relaxed);
        }
    }

    /// What other processes with limits have on their way, of this job and of others.
    pub fn others(&self) -> Others {
        let other = |member: &&Member| !std::ptr::eq(*member, self.member());
        living(self.books()).filter(other).fold(Others::default(), |sum, member| Others {
            working: sum.working + u64::from(member.works.load(Relaxed) != 0),
            begun: sum.begun.wrapping_add(member.begun.load(Relaxed)),
        })
    }

    /// Notes that the device worked for this process for so many nanoseconds until `now`.
    pub fn ran(&self, now: u64, nanos: u64, policy: Policy) {
        self.member().worked.store(now, Relaxed);
        self.tally().ran.fetch_add(nanos, Relaxed);
        if policy == Policy::Hard || self.is_wanted_by_others(now) {
            self.bucket().take(nanos);
        }
    }

    /// Counts the time for which a launch waited for the job's part.
    pub fn note_waited(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.tally().waited.fetch_add(nanos, Relaxed);
    }

    fn tally(&self) -> &Tally {
        &self.books().jobs[self.job()].tally
    }

    fn is_wanted_by_others(&self, now: u64) -> bool {
        let wants = |member: &Member| {
            is_recent(member.worked.load(Relaxed).max(member.wanted.load(Relaxed)), now)
        };
        living(self.books()).any(|member| member.job() != Some(self.job()) && wants(member))
    }
}

fn living(books: &Books) -> impl Iterator<Item = &Member> {
    books.members.iter().filter(|member| member.job().is_some())
}

fn is_recent(then: u64, now: u64) -> bool {
    then > 0 && now.abs_diff(then) <= RECENT
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
