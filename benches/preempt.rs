//! Time until real-time work starts and best-effort work resumes on the software device, by level.
//!
//! Best-effort load: four clients with the convolutions of ResNet-50, always more than the device
//! can take. Real-time load: one small kernel now and then. The real-time client is woken by a
//! timer, as a real one is by its network or camera; latency runs from its submission until the
//! kernel's first block, by the clock that both share.
//!
//! Wanted on 2 cores: at level All ≤ 20 µs p50 more than on the idle device.

#![allow(missing_docs)]

use hdrhistogram::Histogram;
use reef::cpu::{Cpu, Kernel, Outcome};
use reef::models::Model;
use reef::scheduler::Reef;
use reef::{
    Args, ClientConfig, Command, Device, Dispatcher, Launch, PreemptLevel, RtClient, Task,
    VirtualQueue, queue::Config,
};
use reef_conformance::Null;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn main() {
    // `cargo test --benches` and `--quick` want to see it run, not numbers.
    let quick = std::env::args().any(|arg| arg == "--quick" || arg == "--test");
    let samples = if quick { 20 } else { 1000 };
    println!("{:<44} {:>9} {:>9} {:>9}", "µs", "p50", "p99", "max");
    queue_alone(samples * 20);
    let device = Cpu::open(0, "").expect("the software device");
    round_trip_cpu(&device, samples);
    let others = submit_during_others(&device, &small(1), samples);
    row("submit, 4 real-time clients, software device", &others);
    let polled = Null::open(0, "").expect("nothing");
    let others = submit_during_others(&polled, &Null::launch(), samples);
    row("submit, 4 real-time clients, polled device", &others);
    let idle = start_delay(&device, None, samples);
    row("real-time start, idle device", &idle);
    for level in PreemptLevel::ALL {
        let busy = start_delay(&device, Some(level), samples);
        row(&format!("real-time start, level {level}"), &busy);
        let over = |q| (busy.value_at_quantile(q) as f64 - idle.value_at_quantile(q) as f64) / 1e3;
        println!("{:<44} {:>9.1} {:>9.1}", "  more than idle", over(0.5), over(0.99));
    }
    for level in PreemptLevel::ALL {
        let (preempt, resume) = stop_and_go(&device, level, samples);
        row(&format!("preempt, confirmed, level {level}"), &preempt);
        row(&format!("resume until the first block, level {level}"), &resume);
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits")
}

fn row(name: &str, h: &Histogram<u64>) {
    let us = |nanos: u64| nanos as f64 / 1e3;
    let (p50, p99) = (h.value_at_quantile(0.5), h.value_at_quantile(0.99));
    println!("{name:<44} {:>9.1} {:>9.1} {:>9.1}", us(p50), us(p99), us(h.max()));
}

/// The queue alone: from the submission to the driver's call, and until the client knows that it is
/// done, with a worker that spins.
fn queue_alone(samples: u64) {
    let device = Null::open(0, "").expect("nothing");
    let config = Config::default().spin(Duration::from_secs(1));
    let (mut submitter, _queue) = VirtualQueue::enable(&device, config).expect("a queue");
    let launch = Null::launch();
    let (mut launched, mut waited) = (histogram(), histogram());
    for _ in 0..samples {
        let begin = device.clock();
        let seq = submitter.submit(Command::Launch(launch.clone())).expect("room");
        submitter.wait(seq).expect("no error");
        waited += (device.clock() - begin).as_nanos() as u64;
        launched += device.launched_at().saturating_sub(begin).as_nanos() as u64;
    }
    row("submit → launch, spinning worker, no device", &launched);
    row("submit + wait, spinning worker, no device", &waited);
}

/// With a unit, a worker and a client on two cores, each hop may be a context switch.
fn round_trip_cpu(device: &Cpu, samples: u64) {
    let (mut submitter, _queue) = VirtualQueue::enable(device, Config::default()).expect("a queue");
    let mut times = histogram();
    for _ in 0..samples {
        let begin = device.clock();
        let seq = submitter.submit(Command::Launch(small(1))).expect("room");
        submitter.wait(seq).expect("no error");
        times += (device.clock() - begin).as_nanos() as u64;
    }
    row("submit + wait, software device", &times);
}

/// Time of a real-time client inside of `submit` while three others submit as well: the thread that
/// is inside launches for all.
fn submit_during_others<D: Device>(device: &D, launch: &Launch<D>, samples: u64) -> Histogram<u64> {
    let dispatcher = Dispatcher::start(device, Reef::default()).expect("a dispatcher");
    let task = Task::new(vec![Command::Launch(launch.clone())]).expect("a launch alone");
    let client = || {
        let mut client = dispatcher.real_time().expect("a client");
        let mut times = histogram();
        for _ in 0..samples {
            let begin = Instant::now();
            let ticket = client.submit(&task).expect("room");
            times += begin.elapsed().as_nanos() as u64;
            ticket.wait().expect("no error");
        }
        times
    };
    let mut all = histogram();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(client)).collect();
        for client in clients {
            all += client.join().expect("no panic");
        }
    });
    all
}

/// A kernel that does next to nothing.
fn small(blocks: u32) -> Launch<Cpu> {
    let kernel = Kernel::new("small", |_, _| Outcome::Done);
    // SAFETY: it takes no arguments and touches no memory.
    unsafe { Launch::new(kernel, [blocks, 1, 1], [1, 1, 1], Args::default()) }
}

/// Real-time start delays, alone or next to convolutions that are preempted at `level`.
fn start_delay(device: &Cpu, level: Option<PreemptLevel>, samples: u64) -> Histogram<u64> {
    let scheduler = Reef::without_padding().level(level.unwrap_or(PreemptLevel::HostQueue));
    let dispatcher = Dispatcher::start(device, scheduler).expect("a dispatcher");
    let stop = AtomicBool::new(false);
    let model = Model::open("resnet50").read().expect("a name that is known");
    let weights = model.weights(device).expect("memory");
    thread::scope(|scope| {
        for _ in 0..if level.is_some() { 4 } else { 0 } {
            scope.spawn(|| {
                let network = weights.network().expect("memory");
                let mut client = dispatcher.best_effort(ClientConfig::default()).expect("a client");
                while !stop.load(Ordering::Relaxed) {
                    client.run(network.commands()).expect("no error");
                }
            });
        }
        let delays = request(dispatcher.real_time().expect("a client"), samples);
        stop.store(true, Ordering::Relaxed);
        delays
    })
}

fn request(mut client: RtClient<Cpu>, samples: u64) -> Histogram<u64> {
    let task = Task::new(vec![Command::Launch(small(2))]).expect("a launch alone");
    let mut delays = histogram();
    thread::sleep(Duration::from_millis(100));
    for _ in 0..samples {
        thread::sleep(Duration::from_millis(3));
        let timing = client.run(&task).expect("no error");
        delays += timing.delay.as_nanos() as u64;
    }
    delays
}

/// A queue of its own with blocks of 50 µs: how long until nothing of it runs, how long until
/// something runs again.
fn stop_and_go(
    device: &Cpu,
    level: PreemptLevel,
    samples: u64,
) -> (Histogram<u64>, Histogram<u64>) {
    let newest = Arc::new(AtomicU64::new(0));
    let launch = blocks_of_50_micros(device, newest.clone());
    let config = Config::default().level(level);
    let (mut submitter, queue) = VirtualQueue::enable(device, config).expect("a queue");
    let (mut preempt, mut resume) = (histogram(), histogram());
    for _ in 0..samples {
        while submitter.submitted().0 < submitter.completed().0 + 32 {
            submitter.submit(Command::Launch(launch.clone())).expect("room for 32");
        }
        thread::sleep(Duration::from_micros(300));
        let begin = device.clock();
        queue.preempt(true).expect("it runs");
        preempt += (device.clock() - begin).as_nanos() as u64;

        newest.store(0, Ordering::SeqCst);
        let begin = device.clock();
        queue.restore().expect("it is preempted");
        let first = loop {
            match newest.load(Ordering::SeqCst) {
                0 => thread::yield_now(),
                started => break started,
            }
        };
        resume += first.saturating_sub(begin.as_nanos() as u64);
    }
    (preempt, resume)
}

/// Notes when the first block since `newest` was 0 started.
fn blocks_of_50_micros(device: &Cpu, newest: Arc<AtomicU64>) -> Launch<Cpu> {
    let opened = std::time::Instant::now() - device.clock();
    let now = move || opened.elapsed();
    let kernel = Kernel::new("50 µs", move |block, _| {
        let begin = now();
        let stamp = begin.as_nanos() as u64;
        let _ = newest.compare_exchange(0, stamp, Ordering::SeqCst, Ordering::Relaxed);
        while now() - begin < Duration::from_micros(50) {
            if block.stopped() {
                return Outcome::Stopped;
            }
            std::hint::spin_loop();
        }
        Outcome::Done
    });
    // SAFETY: it takes no arguments and touches no memory but what it owns.
    unsafe { Launch::new(kernel, [16, 1, 1], [1, 1, 1], Args::default()) }
}
