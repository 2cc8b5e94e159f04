//! Round trips by each way: how long they take, and how many there are. Run on demand, by
//! `tools/round_trips.sh`.

use crate::daemon::Daemon;
use crate::wire::{Call, Way, empty, inference};
use reef_serve::Class;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Clients where there are several.
const SEVERAL: usize = 4;

/// The measurements of the clients of one kind.
struct Row {
    name: String,
    /// Nanoseconds, sorted.
    times: Vec<u64>,
    seconds: f64,
}

#[test]
#[ignore = "figures, not a check: tools/round_trips.sh"]
fn load() {
    let seconds = std::env::var("REEF_LOAD_SECONDS").map_or(3.0, |text| text.parse().unwrap());
    let time = Duration::from_secs_f64(seconds);
    let daemon = Daemon::start("load", &["times.spin_us=200", "models.load=[\"tiny\"]"]);
    let folder = daemon.folder();
    println!("| round trip | per second | p50 µs | p90 µs | p99 µs | p99.9 µs | max µs |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for way in Way::ALL {
        for clients in [1, SEVERAL] {
            let name = format!("{}, empty, {clients} at a time", way.name());
            show(&run(vec![(name, (0..clients).map(|_| empty(way, folder)).collect())], time));
        }
    }
    for way in Way::ALL {
        for clients in [1, SEVERAL] {
            let name = format!("{}, BE, {clients} at a time", way.name());
            show(&run(vec![(name, inferences(way, Class::BestEffort, clients, folder))], time));
        }
        let rt = inferences(way, Class::RealTime, 1, folder);
        show(&run(vec![(format!("{}, RT alone", way.name()), rt)], time));
        let rt = inferences(way, Class::RealTime, 1, folder);
        let be = inferences(way, Class::BestEffort, SEVERAL, folder);
        let name = |class: &str| format!("{}, {class}", way.name());
        let colocate = name(&format!("RT with {SEVERAL} BE"));
        let those = name(&format!("those {SEVERAL} BE"));
        show(&run(vec![(colocate, rt), (those, be)], time));
    }
}

fn inferences(way: Way, class: Class, clients: usize, folder: &Path) -> Vec<Call> {
    (0..clients).map(|_| inference(way, class, folder)).collect()
}

/// Lets all clients of all kinds go round for a while, at the same time.
fn run(kinds: Vec<(String, Vec<Call>)>, time: Duration) -> Vec<Row> {
    let all: usize = kinds.iter().map(|(_, calls)| calls.len()).sum();
    let (stop, start) = (AtomicBool::new(false), Barrier::new(all + 1));
    let (started, stopped) = (&start, &stop);
    thread::scope(|scope| {
        let client = |call: Call| scope.spawn(move || round_trips(call, started, stopped));
        let kinds: Vec<_> = kinds
            .into_iter()
            .map(|(name, calls)| (name, calls.into_iter().map(client).collect::<Vec<_>>()))
            .collect();
        start.wait();
        let begin = Instant::now();
        thread::sleep(time); // sleep: the time that is measured
        stop.store(true, Ordering::Relaxed);
        let seconds = begin.elapsed().as_secs_f64();
        let rows = kinds.into_iter().map(|(name, clients)| {
            let times = clients.into_iter().flat_map(|client| client.join().expect("no panic"));
            let mut times: Vec<u64> = times.collect();
            times.sort_unstable();
            Row { name, times, seconds }
        });
        rows.collect()
    })
}

/// Returns the time of each round trip, after some warm-up calls.
fn round_trips(mut call: Call, start: &Barrier, stop: &AtomicBool) -> Vec<u64> {
    (0..20).for_each(|_| call());
    start.wait();
    let mut times = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        call();
        times.push(begin.elapsed().as_nanos() as u64);
    }
    times
}

fn show(rows: &[Row]) {
    for Row { name, times, seconds } in rows {
        assert!(!times.is_empty(), "{name}: nothing finished");
        let at = |share: f64| {
            let nanos = times[((times.len() - 1) as f64 * share) as usize];
            format!("{:.*}", if nanos < 100_000 { 2 } else { 0 }, nanos as f64 / 1e3)
        };
        let [p50, p90, p99, max] = [0.5, 0.9, 0.99, 1.0].map(at);
        let p999 = if times.len() < 5_000 { "–".into() } else { at(0.999) };
        let rate = times.len() as f64 / seconds;
        println!("| {name} | {rate:.0} | {p50} | {p90} | {p99} | {p999} | {max} |");
    }
}
