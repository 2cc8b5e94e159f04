//! Times at which a task launches its next request, as DISB decides it. Nothing here reads a clock:
//! times are counted from the start of the benchmark, and the caller passes the current one.
//!
//! A task has one request outstanding. When it has taken so long that the next moment to launch has
//! passed as well, only the newest of the missed moments counts, as for a camera whose newest frame
//! wins:
//!
//! ```text
//! next       now    next but one          still launches for `next`, late
//!   |---------|---------|
//! next      next but one     now          skips `next`
//!   |------------|------------|
//! ```

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Reason for a task to launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Load {
    /// Launches as soon as the request before has finished.
    Continuous,
    /// `frequency` times per second. Tasks of one frequency and no positive priority are spread
    /// out.
    Periodic { frequency: f64, priority: i64 },
    /// `frequency` times per second on average, at random.
    Poisson { frequency: f64 },
    /// At these times.
    Trace(Vec<Duration>),
    /// When all of these tasks have a result of one number.
    Dependent { on: Vec<String> },
}

impl Load {
    /// Number of tasks that it depends on, if it depends on others.
    pub(crate) fn dependency_count(&self) -> Option<usize> {
        match self {
            Self::Dependent { on } => Some(on.iter().collect::<BTreeSet<_>>().len()),
            _ => None,
        }
    }
}

/// The moments at which a task launches.
#[derive(Debug)]
pub(crate) struct Pace {
    kind: Kind,
    end: Duration,
    /// Moments before the end that were missed.
    pub(crate) skipped: u64,
}

#[derive(Debug)]
enum Kind {
    Continuous,
    Periodic { next: Duration, interval: Duration },
    Poisson { next: Duration, frequency: f64, rng: Box<ChaCha8Rng> },
    Trace { times: Vec<Duration>, next: usize },
    Never,
}

impl Pace {
    /// Load of a benchmark that lasts until `end`. `delay` is for periodic loads, `seed` for random
    /// ones. A dependent load has no moments of its own: see [`Inbox`].
    pub(crate) fn new(load: &Load, delay: Duration, end: Duration, seed: u64) -> Self {
        let kind = match load {
            Load::Continuous => Kind::Continuous,
            Load::Periodic { frequency, .. } if *frequency > 0.0 => {
                Kind::Periodic { next: delay, interval: interval(*frequency) }
            }
            Load::Poisson { frequency } if *frequency > 0.0 => {
                let rng = Box::new(ChaCha8Rng::seed_from_u64(seed));
                Kind::Poisson { next: Duration::ZERO, frequency: *frequency, rng }
            }
            Load::Trace(times) => {
                let mut times = times.clone();
                times.sort();
                Kind::Trace { times, next: 0 }
            }
            Load::Periodic { .. } | Load::Poisson { .. } | Load::Dependent { .. } => Kind::Never,
        };
        Self { kind, end, skipped: 0 }
    }

    /// When to launch next if it is `now`: a moment that may have passed; `None` if never again.
    pub(crate) fn next(&mut self, now: Duration) -> Option<Duration> {
        let (end, skipped) = (self.end, &mut self.skipped);
        let mut skip = |missed: Duration| *skipped += u64::from(missed < end);
        let moment = match &mut self.kind {
            Kind::Continuous => now,
            Kind::Periodic { next, interval } => {
                while *next + *interval < now {
                    skip(*next);
                    *next += *interval;
                }
                std::mem::replace(next, *next + *interval)
            }
            Kind::Poisson { next, frequency, rng } => {
                let mut after = *next + random_interval(*frequency, rng);
                while after < now {
                    skip(*next);
                    *next = after;
                    after += random_interval(*frequency, rng);
                }
                std::mem::replace(next, after)
            }
            Kind::Trace { times, next } => {
                let mut moment = *times.get(*next)?;
                *next += 1;
                while let Some(&after) = times.get(*next).filter(|&&after| after < now) {
                    skip(moment);
                    moment = after;
                    *next += 1;
                }
                moment
            }
            Kind::Never => return None,
        };
        (moment < self.end).then_some(moment)
    }
}

/// Whole nanoseconds between launches.
fn interval(frequency: f64) -> Duration {
    Duration::from_nanos((1e9 / frequency) as u64)
}

/// Whole microseconds until the next launch of a Poisson process.
fn random_interval(frequency: f64, rng: &mut ChaCha8Rng) -> Duration {
    let unit = 1.0 - rng.random::<f64>(); // not 0
    Duration::from_micros((-unit.ln() / frequency * 1e6) as u64)
}

/// Delay of each periodic task's first launch.
///
/// `tasks` are loads with what a request of each takes alone, in the order of their names. Of tasks
/// with the same whole frequency, and no positive priority, each starts when those before it would
/// be done.
pub(crate) fn delays<'a>(tasks: impl Iterator<Item = (&'a Load, Duration)>) -> Vec<Duration> {
    let mut taken: BTreeMap<i64, Duration> = BTreeMap::new();
    let delay = |(load, alone): (&Load, Duration)| match load {
        Load::Periodic { frequency, priority } if *priority <= 0 => {
            let taken = taken.entry(*frequency as i64).or_default();
            std::mem::replace(taken, *taken + alone)
        }
        _ => Duration::ZERO,
    };
    tasks.map(delay).collect()
}

/// Results that a dependent task waits for.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// Number of tasks that it depends on.
    wanted: usize,
    /// Tasks that have a result, for each number.
    results: BTreeMap<u64, BTreeSet<usize>>,
}

impl Inbox {
    pub(crate) fn new(wanted: usize) -> Self {
        Self { wanted, results: BTreeMap::new() }
    }

    /// Result `number` of task `from` is there.
    pub(crate) fn put(&mut self, number: u64, from: usize) {
        self.results.entry(number).or_default().insert(from);
    }

    /// The lowest number of which all results are there; what is older goes.
    pub(crate) fn take(&mut self) -> Option<u64> {
        let complete = |(_, from): &(&u64, &BTreeSet<usize>)| from.len() == self.wanted;
        let number = *self.results.iter().find(complete)?.0;
        self.results = self.results.split_off(&(number + 1));
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// When requests start that take this long each; the last one serves for all that follow.
    fn starts(pace: &mut Pace, takes: &[u64]) -> Vec<u64> {
        let mut now = Duration::ZERO;
        let mut starts = Vec::new();
        while let Some(moment) = pace.next(now) {
            let start = moment.max(now);
            starts.push(start.as_millis() as u64);
            now = start + ms(takes[(starts.len() - 1).min(takes.len() - 1)]);
        }
        starts
    }

    fn pace(load: &Load, delay: u64, end: u64) -> Pace {
        Pace::new(load, ms(delay), ms(end), 1)
    }

    fn periodic(frequency: f64) -> Load {
        Load::Periodic { frequency, priority: 0 }
    }

    #[test]
    fn continuous_task_launches_after_previous_request() {
        assert_eq!(starts(&mut pace(&Load::Continuous, 0, 100), &[30]), [0, 30, 60, 90]);
        assert_eq!(pace(&Load::Continuous, 0, 100).next(ms(100)), None);
    }

    #[test]
    fn a_periodic_task_keeps_its_beat() {
        let mut steady = pace(&periodic(50.0), 5, 100);
        assert_eq!(starts(&mut steady, &[10]), [5, 25, 45, 65, 85]);
        assert_eq!(steady.skipped, 0);
    }

    /// Beats at 0, 20, 40 … A request of 30 ms misses 20, which is still the newest at 30: it
    /// starts late. One of 70 ms ends at 100, when 40 and 60 are missed and 80 is the newest before
    /// the coming one.
    #[test]
    fn a_late_periodic_task_launches_for_the_newest_missed_beat() {
        let mut late = pace(&periodic(50.0), 0, 160);
        assert_eq!(starts(&mut late, &[30, 70, 5]), [0, 30, 100, 105, 120, 140]);
        assert_eq!(late.skipped, 2);
    }

    /// 20 to 80 are missed while the first request runs; what would have come after the end is not.
    #[test]
    fn launch_after_the_end_is_not_skipped() {
        let mut late = pace(&periodic(50.0), 0, 100);
        assert_eq!(starts(&mut late, &[500]), [0]);
        assert_eq!(late.skipped, 4);
    }

    #[test]
    fn a_beat_that_comes_this_instant_is_not_skipped_for() {
        let mut exact = pace(&periodic(50.0), 0, 1000);
        assert_eq!(exact.next(ms(0)), Some(ms(0)));
        assert_eq!(exact.next(ms(40)), Some(ms(20)), "40 is not before now");
        assert_eq!(exact.next(ms(61)), Some(ms(60)));
        assert_eq!(exact.skipped, 1);
    }

    #[test]
    fn intervals_are_whole_nanoseconds() {
        assert_eq!(interval(3.0), Duration::from_nanos(333_333_333));
        assert_eq!(interval(220.0), Duration::from_nanos(4_545_454));
    }

    #[test]
    fn no_frequency_is_never() {
        assert_eq!(pace(&periodic(0.0), 0, 100).next(ms(0)), None);
        assert_eq!(pace(&Load::Poisson { frequency: 0.0 }, 0, 100).next(ms(0)), None);
    }

    #[test]
    fn a_poisson_task_starts_at_once_and_keeps_its_rate() {
        let load = Load::Poisson { frequency: 100.0 };
        let mut random = pace(&load, 0, 20_000);
        let all: Vec<_> = std::iter::from_fn(|| random.next(Duration::ZERO)).collect();
        assert_eq!(all[0], Duration::ZERO);
        assert!(all.is_sorted() && (1_850..2_150).contains(&all.len()), "{}", all.len());
        assert!(all.iter().all(|moment| moment.subsec_nanos() % 1_000 == 0), "whole microseconds");
        let mut again = pace(&load, 0, 20_000);
        let slow = starts(&mut again, &[30]);
        assert!(again.skipped > 0 && slow.len() < 700, "{} of {}", again.skipped, slow.len());
        assert_eq!(all.len() as u64, slow.len() as u64 + again.skipped, "launched or skipped");
    }

    /// At 35 the entry at 10 is the next one; 20 and 30 are past too, 50 is not.
    #[test]
    fn a_trace_skips_what_its_successor_has_overtaken() {
        let trace = Load::Trace([50, 10, 20, 0, 30, 90].map(ms).into());
        let mut late = pace(&trace, 0, 80);
        assert_eq!(starts(&mut late, &[35, 5]), [0, 35, 50]);
        assert_eq!(late.skipped, 2);
        let mut steady = pace(&trace, 0, 1000);
        assert_eq!(starts(&mut steady, &[1]), [0, 10, 20, 30, 50, 90]);
        assert_eq!(steady.next(ms(0)), None, "exhausted");
    }

    #[test]
    fn periodic_tasks_of_one_frequency_take_turns() {
        let later = Load::Periodic { frequency: 20.0, priority: 1 };
        let loads = [
            (periodic(20.0), ms(3)),
            (later, ms(50)),
            (periodic(20.5), ms(4)),
            (Load::Continuous, ms(9)),
            (periodic(100.0), ms(2)),
            (periodic(20.0), ms(1)),
        ];
        let delays = delays(loads.iter().map(|(load, alone)| (load, *alone)));
        assert_eq!(delays, [0, 0, 3, 0, 0, 7].map(ms), "20.5 counts as 20");
    }

    #[test]
    fn dependent_task_takes_oldest_complete_set() {
        let mut inbox = Inbox::new(2);
        inbox.put(0, 7);
        inbox.put(0, 7);
        assert_eq!(inbox.take(), None, "one of two");
        inbox.put(2, 7);
        inbox.put(1, 8);
        inbox.put(2, 8);
        inbox.put(3, 8);
        assert_eq!(inbox.take(), Some(2));
        inbox.put(1, 7);
        inbox.put(3, 7);
        assert_eq!([inbox.take(), inbox.take()], [Some(3), None]);
    }
}
