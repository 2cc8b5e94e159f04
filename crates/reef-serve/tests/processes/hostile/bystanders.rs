//! Clients that an attack on the daemon should not touch.

use crate::daemon::Daemon;
use crate::options;
use crate::wire::{Grpc, Http, infer_request};
use reef_serve::{Class, Client};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Between two requests of each.
const RT_PERIOD: Duration = Duration::from_millis(10);
const HEALTH_PERIOD: Duration = Duration::from_millis(20);
const OTHER_PERIOD: Duration = Duration::from_millis(100);

/// A paced real-time client of the local path, a prober of health over HTTP, another client over
/// gRPC.
pub(super) struct Bystanders<'a> {
    daemon: &'a Daemon,
    folder: PathBuf,
    rt: Client,
    /// The other client connects anew each time, by the local path.
    anew: bool,
}

/// The measurements of one period.
#[derive(Debug, Default)]
pub(super) struct Measurements {
    /// Latencies of real-time requests, sorted.
    rt: Vec<Duration>,
    /// The longest answer about health.
    pub(super) health: Duration,
    /// Requests that had no answer, and all.
    pub(super) lost: usize,
    pub(super) asked: usize,
    /// Most resident memory of the daemon.
    pub(super) memory: u64,
}

impl Measurements {
    pub(super) fn rt_p99(&self) -> Duration {
        self.rt.get(self.rt.len().saturating_sub(1) * 99 / 100).copied().unwrap_or(Duration::MAX)
    }

    fn add(&mut self, is_answered: bool) {
        self.asked += 1;
        self.lost += usize::from(!is_answered);
    }
}

impl<'a> Bystanders<'a> {
    pub(super) fn connect(daemon: &'a Daemon, anew: bool) -> Self {
        let folder = daemon.folder().to_path_buf();
        let rt = Client::connect("tiny", &options(&folder, Some(Class::RealTime)));
        Self { daemon, folder, rt: rt.expect("a daemon before the attack"), anew }
    }

    /// Lets all of them ask for a while.
    pub(super) fn watch(&mut self, time: Duration) -> Measurements {
        let Self { daemon, folder, rt, anew } = self;
        let stop = &AtomicBool::new(false);
        thread::scope(|scope| {
            let health = scope.spawn(|| health(folder, stop));
            let other =
                scope.spawn(|| if *anew { newcomer(folder, stop) } else { other(folder, stop) });
            let memory = scope.spawn(|| memory(daemon, stop));
            let mut seen = real_time(rt, time);
            stop.store(true, Ordering::Relaxed);
            for more in [health.join(), other.join(), memory.join()].map(Result::unwrap) {
                seen.health = seen.health.max(more.health);
                seen.memory = seen.memory.max(more.memory);
                seen.lost += more.lost;
                seen.asked += more.asked;
            }
            seen
        })
    }
}

/// Asks at fixed times: a late answer makes the next requests late as well, which counts.
fn real_time(client: &mut Client, time: Duration) -> Measurements {
    let (mut seen, begin) = (Measurements::default(), Instant::now());
    let (input, mut output) = (vec![0.5; client.input_len()], vec![0.0; client.output_len()]);
    for number in 0.. {
        let due = begin + RT_PERIOD * number;
        if due > begin + time || Instant::now() > begin + time * 2 {
            break;
        }
        thread::sleep(due.saturating_duration_since(Instant::now())); // sleep: pace of the requests
        let is_answered = client.infer_into(&input, &mut output).is_ok();
        seen.add(is_answered);
        seen.rt.push(if is_answered { due.elapsed() } else { Duration::MAX });
    }
    seen.rt.sort_unstable();
    seen
}

fn until(
    stop: &AtomicBool,
    period: Duration,
    mut ask: impl FnMut(&mut Measurements),
) -> Measurements {
    let mut seen = Measurements::default();
    while !stop.load(Ordering::Relaxed) {
        ask(&mut seen);
        thread::sleep(period); // sleep: pace of the requests
    }
    seen
}

/// As an orchestrator's prober, with a new connection each time.
fn health(folder: &std::path::Path, stop: &AtomicBool) -> Measurements {
    let request = b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    until(stop, HEALTH_PERIOD, |seen| {
        let begin = Instant::now();
        let answer = Http::connect(folder).and_then(|mut http| http.ask(request));
        seen.health = seen.health.max(begin.elapsed());
        seen.add(answer.is_ok_and(|(status, _)| status == 200));
    })
}

fn other(folder: &std::path::Path, stop: &AtomicBool) -> Measurements {
    let mut grpc = Grpc::connect(folder);
    until(stop, OTHER_PERIOD, |seen| {
        let answer = grpc.infer(infer_request("tiny", Class::BestEffort));
        seen.add(answer.inspect_err(|e| eprintln!("another client: {e}")).is_ok());
    })
}

fn newcomer(folder: &std::path::Path, stop: &AtomicBool) -> Measurements {
    let options = options(folder, Some(Class::BestEffort));
    until(stop, OTHER_PERIOD, |seen| {
        let answer = Client::connect("tiny", &options)
            .and_then(|mut client| client.infer(&vec![0.5; client.input_len()]));
        seen.add(answer.inspect_err(|e| eprintln!("a newcomer: {e}")).is_ok());
    })
}

fn memory(daemon: &Daemon, stop: &AtomicBool) -> Measurements {
    until(stop, HEALTH_PERIOD, |seen| seen.memory = seen.memory.max(daemon.usage().0))
}
