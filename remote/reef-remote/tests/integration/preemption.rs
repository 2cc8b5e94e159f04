//! Real-time work of one session preempts best-effort work of another, at each level.

use crate::support;
use reef_core::scheduler::Reef;
use reef_core::{ClientConfig, Device, Dispatcher, PreemptLevel, Priority, Span, Task};
use reef_cpu::Cpu;
use reef_models::{Model, Network};
use reef_remote::Remote;
use reef_remote::server::Host;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

fn network(device: &Remote, name: &str, size: usize) -> Network<Remote> {
    let model = Model::open(name).input_size(size).read().unwrap();
    let network = model.weights(device).unwrap().network().unwrap();
    let input: Vec<f32> = (0..network.input_len()).map(|i| (i % 17) as f32 / 8.0).collect();
    network.stage_input(&input).unwrap();
    network
}

fn start(device: &Remote) -> Dispatcher<Remote> {
    Dispatcher::start(device, Reef::default().level(PreemptLevel::HostQueue)).unwrap()
}

/// Runs real-time inferences of one session next to best-effort work of another until a preemption
/// has met that, and returns what the device ran meanwhile, and the number of preemptions.
fn preempted_at(level: PreemptLevel, is_shown: fn(&[Span]) -> bool) -> (Vec<Span>, u64) {
    let device = Arc::<OnceLock<Cpu>>::default();
    let known = device.clone();
    let served = support::shared_by(move |device| {
        let _ = known.set(device.clone());
        Host::start_with(device, Box::new(Reef::without_padding().level(level)))
    });
    let open = || Remote::open(0, &served.device()).unwrap();
    let (first, second) = (open(), open());
    let (long, short) = (network(&first, "resnet18", 64), network(&second, "resnet18", 32));
    let (best_effort, real_time) = (start(&first), start(&second));
    let mut background = best_effort.best_effort(ClientConfig::default()).unwrap();
    let graph = long.graphs(usize::MAX).unwrap();
    background.run(&graph).unwrap();
    let alone = long.staged_output().unwrap();
    let task = Task::new(short.graphs(usize::MAX).unwrap()).unwrap();
    let mut client = real_time.real_time().unwrap();
    client.run(&task).unwrap();
    let device = device.get().unwrap();
    let preemptions = || served.host.get().unwrap().stats().preemptions;
    let before = preemptions();
    device.set_trace(true);
    let (mut spans, mut last) = (Vec::new(), background.submit(&graph).unwrap());
    for round in 0.. {
        assert!(round < 500, "level {level}: no preemption met best-effort work");
        if background.submitter().completed() > last {
            last = background.submit(&graph).unwrap();
        }
        // sleep: into the graph; where it is too early or too late, it is tried again
        std::thread::sleep(Duration::from_micros(500 + 137 * (round % 11)));
        client.run(&task).unwrap();
        spans.extend(device.take_trace());
        if is_shown(&spans) && preemptions() > before {
            break;
        }
    }
    background.wait(last).unwrap();
    device.set_trace(false);
    assert_eq!(long.staged_output().unwrap(), alone, "level {level}: what was stopped is whole");
    (spans, preemptions() - before)
}

fn of(spans: &[Span], priority: Priority) -> impl Iterator<Item = &Span> {
    spans.iter().filter(move |span| span.priority == priority)
}

/// Best-effort blocks that began while a request's kernels ran, request by request.
fn begun_within_requests(spans: &[Span]) -> usize {
    let mut bounds: Vec<(Duration, Duration)> = Vec::new();
    let mut last = None;
    for span in of(spans, Priority::RealTime) {
        // The lane's commands are one request's each.
        match bounds.last_mut() {
            Some(bound) if last == Some(span.seq) || span.begin < bound.1 => {
                bound.1 = bound.1.max(span.end);
            }
            _ => bounds.push((span.begin, span.end)),
        }
        last = Some(span.seq);
    }
    let is_within =
        |span: &&Span| bounds.iter().any(|(from, to)| (from..to).contains(&&span.begin));
    of(spans, Priority::BestEffort).filter(is_within).count()
}

/// Launched blocks run on; the commands after them wait.
#[test]
fn other_sessions_commands_wait_at_host_queue() {
    let has_both = |spans: &[Span]| {
        of(spans, Priority::RealTime).count() > 0 && of(spans, Priority::BestEffort).count() > 0
    };
    let (spans, preemptions) = preempted_at(PreemptLevel::HostQueue, has_both);
    println!("{preemptions} preemptions");
    assert!(of(&spans, Priority::BestEffort).all(|span| !span.stopped), "no block is stopped");
}

/// No block of the other session begins while a kernel of the request runs.
#[test]
fn other_sessions_launches_are_evicted_at_device_queue() {
    let has_both = |spans: &[Span]| {
        of(spans, Priority::RealTime).count() > 0 && of(spans, Priority::BestEffort).count() > 0
    };
    let (spans, preemptions) = preempted_at(PreemptLevel::DeviceQueue, has_both);
    println!("{preemptions} preemptions");
    assert!(of(&spans, Priority::BestEffort).all(|span| !span.stopped), "no block is stopped");
    assert_eq!(begun_within_requests(&spans), 0);
}

/// Running blocks of the other session are stopped.
#[test]
fn other_sessions_blocks_are_stopped_at_all() {
    let is_stopped = |spans: &[Span]| of(spans, Priority::BestEffort).any(|span| span.stopped);
    let (spans, preemptions) = preempted_at(PreemptLevel::All, is_stopped);
    println!("{preemptions} preemptions");
    assert!(is_stopped(&spans));
    assert_eq!(begun_within_requests(&spans), 0);
}
