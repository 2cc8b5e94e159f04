//! A process's use of its device's time, as the books have it.

use super::books::{Books, Member, Tally};
use super::seat::Account;
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

    /// Notes that work of this process was on the device for so many nanoseconds until `now`. The device turns between
    /// those who work at once, so that each had a part of that.
    pub fn ran(&self, now: u64, nanos: u64, policy: Policy) {
        self.member().worked.store(now, Relaxed);
        let works = |member: &&Member| is_recent(member.worked.load(Relaxed), now);
        let working = living(self.books()).filter(works).count().max(1);
        let nanos = nanos / working as u64;
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
mod tests {
    use super::super::{BooksFile, Seat};
    use super::*;

    const MILLISECOND: u64 = 1_000_000;
    /// As the library looks.
    const LOOK: u64 = MILLISECOND;
    /// As much as it lets be launched.
    const AHEAD: u64 = 20 * MILLISECOND;

    /// A program that launches kernels of one length whenever it may, on a device that turns between programs.
    struct Program {
        seat: Seat,
        kernel: u64,
        /// What is launched and hasn't run, and what has, in nanoseconds.
        queued: u64,
        ran: u64,
    }

    impl Program {
        fn new(folder: &std::path::Path, name: &str, part: u32, kernel: u64) -> Self {
            let file = BooksFile::open(folder, b"sixteen bytes id").unwrap();
            let seat = Seat::join(file, name, None, Some(part)).unwrap();
            Self { seat, kernel, queued: 0, ran: 0 }
        }

        /// From one look to the next, with so much of the device for this one.
        fn step(&mut self, now: u64, given: u64, policy: Policy) {
            let account = self.seat.account();
            while self.queued < AHEAD && account.wait(now, policy).is_zero() {
                self.queued += self.kernel;
                if self.kernel >= AHEAD {
                    break;
                }
            }
            let was_busy = self.queued > 0;
            let ran = given.min(self.queued);
            self.queued -= ran;
            self.ran += ran;
            if was_busy {
                account.ran(now + LOOK, LOOK, policy);
            }
        }
    }

    /// Which parts of the time programs had in seconds 1 to 11.
    fn parts(name: &str, all: &[(&str, u32, u64)], policy: Policy) -> Vec<f64> {
        let folder = std::env::temp_dir().join(format!("reef-time-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder); // of a test that was killed
        let new = |(name, percent, kernel): &(&str, u32, u64)| {
            Program::new(&folder, name, percent * 10_000, kernel * MILLISECOND / 100)
        };
        let mut programs: Vec<_> = all.iter().map(new).collect();
        for look in 1..=11_000 {
            if look == 1_000 {
                programs.iter_mut().for_each(|program| program.ran = 0);
            }
            let busy = programs.iter().filter(|program| program.queued > 0).count().max(1);
            let now = 7_000 * MILLISECOND + look * LOOK;
            programs.iter_mut().for_each(|program| {
                let given = if program.queued > 0 || busy == 1 { LOOK / busy as u64 } else { 0 };
                program.step(now, given, policy);
            });
        }
        let _ = std::fs::remove_dir_all(&folder);
        programs.iter().map(|program| program.ran as f64 / 1e8).collect()
    }

    #[test]
    fn a_program_has_its_part_of_the_time_within_three_points() {
        for percent in [10, 30, 50, 70, 100] {
            for kernel in [1, 30, 100, 900, 15_000] {
                let part = parts("one", &[("a", percent, kernel)], Policy::Hard)[0];
                let off = (part - f64::from(percent)).abs();
                assert!(off <= 3.0, "{percent} %, kernels of {kernel}/100 ms: {part}");
            }
        }
    }

    #[test]
    fn two_programs_have_their_parts_of_the_time() {
        for kernels in [(10, 10), (10, 500), (500, 10), (300, 300)] {
            let all = [("a", 30, kernels.0), ("b", 70, kernels.1)];
            for policy in [Policy::Hard, Policy::WorkConserving] {
                let had = parts("two", &all, policy);
                let off = [(had[0] - 30.0).abs(), (had[1] - 70.0).abs()];
                assert!(off[0] <= 3.0 && off[1] <= 7.0, "{kernels:?}, {policy:?}: {had:?}");
            }
        }
    }

    #[test]
    fn a_work_conserving_part_is_all_of_it_while_nobody_else_wants_it() {
        assert!(parts("soft", &[("a", 10, 100)], Policy::WorkConserving)[0] > 97.0);
    }
}
