//! The last minutes: one entry for each second, and the last preemptions.

use super::sample::{ProgramUse, Sample};
use crate::class::Class;
use std::collections::VecDeque;
use std::time::Duration;

/// Number of seconds that charts show.
pub(super) const SECONDS: usize = 300;

/// Number of entries of the log.
const LOG_LINES: usize = 50;

/// A second of the daemon. Values without work in that second are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Second {
    /// Median and 99th percentile of real-time requests that were answered.
    pub(super) rt: Option<(Duration, Duration)>,
    /// Part of the best-effort work's time on the devices in which it ran.
    pub(super) kept: Option<f64>,
    /// Part of the time in which the devices had work, on average.
    pub(super) busy: Option<f64>,
    pub(super) preemptions: u64,
}

/// An entry of the log: best-effort work that was preempted within a second.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Preempted {
    /// Time since 1970 of the second's end.
    pub(super) time: Duration,
    pub(super) what: Work,
}

/// Work that was preempted.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Work {
    /// Requests of the daemon on a device, and how often.
    Device { name: String, preemptions: u64, requests: u64 },
    /// An unmodified program, and for how long.
    Program { name: String, held: Duration },
}

/// The last minutes.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) seconds: VecDeque<Second>,
    /// The newest first.
    pub(super) log: VecDeque<Preempted>,
    /// The last two samples.
    pub(super) before: Option<Sample>,
    pub(super) now: Option<Sample>,
}

impl History {
    /// Adds a sample, which ends a second.
    pub(super) fn add(&mut self, sample: Sample) {
        self.before = self.now.take();
        if let Some(before) = &self.before {
            push(&mut self.seconds, second(before, &sample));
            for entry in preempted(before, &sample) {
                self.log.push_front(entry);
            }
            self.log.truncate(LOG_LINES);
        }
        self.now = Some(sample);
    }
}

fn push(seconds: &mut VecDeque<Second>, second: Second) {
    if seconds.len() == SECONDS {
        seconds.pop_front();
    }
    seconds.push_back(second);
}

/// Returns the growth of a program's times since another sample.
pub(super) fn growth(before: Option<&Sample>, now: &ProgramUse) -> (Duration, Duration) {
    let programs = before.into_iter().flat_map(|before| &before.programs);
    let Some(then) = programs.into_iter().find(|then| then.key == now.key) else {
        return Default::default(); // how long it has been there is not known
    };
    (now.ran.saturating_sub(then.ran), now.held.saturating_sub(then.held))
}

fn second(before: &Sample, now: &Sample) -> Second {
    let rt =
        now.latencies[Class::RealTime as usize].since(&before.latencies[Class::RealTime as usize]);
    Second {
        rt: rt.percentile(0.5).zip(rt.percentile(0.99)),
        kept: best_effort_part(before, now),
        busy: busy(before, now),
        preemptions: devices(before, now).map(|(_, preemptions, _)| preemptions).sum(),
    }
}

fn best_effort_part(before: &Sample, now: &Sample) -> Option<f64> {
    let best_effort = now.programs.iter().filter(|one| one.class == Class::BestEffort);
    let each = best_effort.map(|one| growth(Some(before), one));
    let (ran, held) =
        each.fold(<(Duration, Duration)>::default(), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let all = (ran + held).as_secs_f64();
    (all > 0.0).then(|| ran.as_secs_f64() / all)
}

fn busy(before: &Sample, now: &Sample) -> Option<f64> {
    let time = now.taken.saturating_duration_since(before.taken).as_secs_f64();
    let sum = |of: &Sample| of.devices.iter().map(|device| device.busy).sum::<Duration>();
    let busy = sum(now).saturating_sub(sum(before)).as_secs_f64();
    let all = time * now.devices.len() as f64;
    (all > 0.0).then(|| (busy / all).min(1.0))
}

/// Returns each device with its preemptions and finished real-time requests since another sample.
fn devices<'a>(
    before: &'a Sample,
    now: &'a Sample,
) -> impl Iterator<Item = (&'a str, u64, u64)> + 'a {
    now.devices.iter().filter_map(|device| {
        let then = before.devices.iter().find(|then| then.name == device.name)?;
        let grown = device.stats.since(then.stats);
        Some((&*device.name, grown.preemptions, grown.rt_finished))
    })
}

fn preempted(before: &Sample, now: &Sample) -> Vec<Preempted> {
    let of_devices = devices(before, now).filter(|(_, preemptions, _)| *preemptions > 0).map(
        |(name, preemptions, requests)| Work::Device { name: name.into(), preemptions, requests },
    );
    let guests = now.programs.iter().filter(|one| one.is_held.is_some());
    let held = guests.filter(|one| one.class == Class::BestEffort).filter_map(|one| {
        let held = growth(Some(before), one).1;
        (!held.is_zero()).then(|| Work::Program { name: one.name.clone(), held })
    });
    of_devices.chain(held).map(|what| Preempted { time: now.time, what }).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::observe::devices::DeviceSnapshot;
    use crate::observe::latency::Latencies;
    use std::time::Instant;

    const SECOND: Duration = Duration::from_secs(1);
    const MS: Duration = Duration::from_millis(1);

    /// Returns a sample at this second, with one device and one best-effort guest.
    pub(in super::super) fn sample(at: u32, name: &str, latencies: &Latencies) -> Sample {
        let mut stats = reef::Stats::default();
        (stats.preemptions, stats.rt_finished) = (u64::from(at) * 3, u64::from(at) * 4);
        let device = DeviceSnapshot {
            name: "cpu:0".into(),
            units: 1,
            busy: 250 * MS * at,
            stats,
            memory: 0,
            load: 0,
            is_up: true,
        };
        let program = ProgramUse {
            key: "guest 1".into(),
            name: name.into(),
            class: Class::BestEffort,
            ran: 600 * MS * at,
            held: 200 * MS * at,
            memory: Some(5 << 20),
            is_held: Some(true),
        };
        Sample {
            taken: Instant::now().checked_add(SECOND * at).expect("soon"),
            time: SECOND * at,
            latencies: latencies.counts(),
            devices: vec![device],
            models: Vec::new(),
            programs: vec![program],
            connections: 2,
        }
    }

    #[test]
    fn second_is_the_growth_between_two_samples() {
        let (latencies, mut history) = (Latencies::default(), History::default());
        latencies.note(Class::RealTime, SECOND); // before anything was seen
        history.add(sample(1, "trainer", &latencies));
        assert_eq!(history.seconds.len(), 0, "a second needs two samples");
        latencies.note(Class::RealTime, 4 * MS);
        latencies.note(Class::BestEffort, SECOND);
        history.add(sample(2, "trainer", &latencies));
        let Second { rt, kept, busy, preemptions } = history.seconds[0];
        let (p50, p99) = rt.expect("a request");
        assert!(p50 == p99 && p50 >= 4 * MS && p50 <= 5 * MS, "{p50:?} {p99:?}");
        assert!((kept.unwrap() - 0.75).abs() < 1e-9, "{kept:?}");
        assert!((busy.unwrap() - 0.25).abs() < 0.01, "{busy:?}");
        assert_eq!(preemptions, 3);
        history.add(sample(3, "trainer", &latencies));
        assert_eq!(history.seconds[1].rt, None, "no request ended in it");
    }

    #[test]
    fn log_names_what_was_preempted() {
        let (latencies, mut history) = (Latencies::default(), History::default());
        history.add(sample(1, "trainer", &latencies));
        history.add(sample(2, "trainer", &latencies));
        let works: Vec<_> = history.log.iter().map(|entry| entry.what.clone()).collect();
        let program = Work::Program { name: "trainer".into(), held: 200 * MS };
        let device = Work::Device { name: "cpu:0".into(), preemptions: 3, requests: 4 };
        assert_eq!(works, [program, device]);
        history.add(Sample { time: 3 * SECOND, ..sample(2, "trainer", &latencies) });
        assert_eq!(history.log.len(), 2, "nothing was preempted since");
    }

    #[test]
    fn history_keeps_the_last_minutes_only() {
        let (latencies, mut history) = (Latencies::default(), History::default());
        (0..2 * SECONDS as u32).for_each(|at| history.add(sample(at, "trainer", &latencies)));
        assert_eq!((history.seconds.len(), history.log.len()), (SECONDS, LOG_LINES));
        assert_eq!(history.log[0].time, SECOND * (2 * SECONDS as u32 - 1), "the newest first");
    }
}
