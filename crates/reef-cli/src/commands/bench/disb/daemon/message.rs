//! Messages between the parent and its clients, each a line of JSON.

use crate::commands::bench::disb::load::Load;
use crate::commands::bench::disb::requests::{Phases, Requests};
use crate::workload::clock::histogram;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The parent wants something.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// First of all; answered by `Ready`.
    Connect(Assignment),
    /// Requests that are not counted; answered by `Ready`.
    WarmUp { requests: u32 },
    /// Requests that are measured; answered by `Alone`.
    Alone { requests: u32 },
    /// The benchmark; answered by `Finished` for each request if `Play::tells`, then `Played`.
    Play(Play),
    /// Result `number` of task `from`, on which the client depends, is there.
    Result { number: u64, from: usize },
}

/// A client says what happened.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Ready,
    Alone(Phases),
    Finished {
        number: u64,
    },
    Played(Played),
    /// The client ends; `input` if it is because of what was asked for.
    Failed {
        why: String,
        input: bool,
    },
}

/// A client's place at the daemon.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Assignment {
    pub(crate) model: String,
    pub(crate) real_time: bool,
    pub(crate) folder: PathBuf,
    /// Longest time of a request.
    pub(crate) timeout: Duration,
}

/// A client's part in a benchmark.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Play {
    pub(crate) load: Load,
    pub(crate) delay: Duration,
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    /// When the first requests are due, by [`clock`].
    pub(crate) begin: Duration,
    /// Other tasks depend on its results.
    pub(crate) tells: bool,
}

/// Nanoseconds, and how many requests took as long.
type Bars = Vec<(u64, u64)>;

/// [`Requests`] on their way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Played {
    sum: Phases,
    latency: Bars,
    from_due: Bars,
    skipped: u64,
    unfinished: u64,
}

impl From<Requests> for Played {
    fn from(requests: Requests) -> Self {
        let Requests { sum, latency, from_due, skipped, unfinished } = requests;
        let [latency, from_due] = [latency, from_due].map(|times| {
            let bars = times.iter_recorded();
            bars.map(|bar| (bar.value_iterated_to(), bar.count_at_value())).collect()
        });
        Self { sum, latency, from_due, skipped, unfinished }
    }
}

impl From<Played> for Requests {
    fn from(played: Played) -> Self {
        let Played { sum, latency, from_due, skipped, unfinished } = played;
        let [latency, from_due] = [latency, from_due].map(|bars| {
            let mut times = histogram();
            for (nanos, count) in bars {
                times.record_n(nanos, count).expect("it grows");
            }
            times
        });
        Self { sum, latency, from_due, skipped, unfinished }
    }
}

/// The time on a clock that all processes share and that is never set.
pub(crate) fn clock() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_arrive_as_they_were_sent() {
        let mut requests = Requests { skipped: 3, unfinished: 1, ..Requests::default() };
        for nanos in [1, 999, 1_000_001, 1_000_001, 77_777_777_777] {
            let infer = Duration::from_nanos(nanos);
            requests.note(&Phases { infer, ..Phases::default() }, infer / 2);
        }
        let text = serde_json::to_string(&Played::from(requests.clone())).unwrap();
        let got = Requests::from(serde_json::from_str::<Played>(&text).unwrap());
        assert!(got.latency == requests.latency && got.from_due == requests.from_due);
        assert_eq!(got.mean().total(), requests.mean().total());
        assert_eq!((got.skipped, got.unfinished), (3, 1));
    }

    #[test]
    fn the_clock_goes_on() {
        let before = clock();
        std::thread::sleep(Duration::from_millis(2)); // sleep: the time that is read
        assert!(clock() - before >= Duration::from_millis(2));
    }
}
