//! A scheduler of one's own compared with REEF:
//! `cargo run --release --example policy [-- --device cuda:0]`

mod common;

use reef::models::{Model, Network, Result, Seeded};
use reef::op::Operators;
use reef::scheduler::{Plan, QueueView, Reef, Scheduler, View};
use reef::{ClientConfig, Dispatcher, Task};
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Time for which real-time work may wait, and for how many commands.
const GRACE: (Duration, u64) = (Duration::from_millis(5), 40);

/// REEF, but best-effort tasks that are nearly done finish first: real-time work waits for a while.
#[derive(Debug)]
struct LastMile;

impl Scheduler for LastMile {
    fn name(&self) -> &'static str {
        "last-mile"
    }

    fn decide(&mut self, now: Duration, view: &View<'_>, plan: &mut Plan) {
        let until = view.rt_oldest().map(|since| since + GRACE.0);
        let nearly_done = |q: &QueueView| q.is_ready() && q.submitted.0 - q.completed.0 < GRACE.1;
        let wait = view.rt_running == 0
            && !view.preempted
            && until.is_some_and(|until| now < until)
            && view.queues.iter().any(nearly_done);
        if wait {
            plan.start.clear();
        }
        plan.preempt = !wait && view.rt() > 0;
        plan.wake = until.filter(|_| wait);
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let (device, _) = common::arguments()?;
    Ok(reef::with_device(&device, Compare)??)
}

struct Compare;

impl reef::Visit for Compare {
    type Output = Result<()>;

    fn visit<D: Operators>(self, device: D) -> Result<()> {
        let (rt, be) = (load(&device, "resnet18")?, load(&device, "densenet121")?);
        println!("scheduler  RT p50 ms  RT p90 ms  BE per second  preemptions");
        let schedulers: [Box<dyn Scheduler>; 2] =
            [Box::new(Reef::without_padding()), Box::new(LastMile)];
        for scheduler in schedulers {
            println!("{}", compare(&device, scheduler, &rt, &be)?);
        }
        Ok(())
    }
}

fn load<D: Operators>(device: &D, name: &str) -> Result<Network<D>> {
    let network = Model::open(name).input_size(64).load(device)?;
    network.stage_input(&Seeded(1).input(network.input_len()))?;
    Ok(network)
}

/// Two seconds of real-time requests every 20 ms during best-effort inferences back to back.
fn compare<D: Operators>(
    device: &D,
    scheduler: Box<dyn Scheduler>,
    rt: &Network<D>,
    be: &Network<D>,
) -> Result<String> {
    let name = scheduler.name();
    let dispatcher = Dispatcher::start(device, scheduler)?;
    let stop = AtomicBool::new(false);
    let begin = Instant::now();
    let (mut millis, inferences) = thread::scope(|scope| -> Result<_> {
        let best_effort = scope.spawn(|| -> Result<u32> {
            let mut client = dispatcher.best_effort(ClientConfig::default())?;
            let mut inferences = 0;
            while !stop.load(Relaxed) {
                client.run(&be.inference())?;
                inferences += 1;
            }
            Ok(inferences)
        });
        let mut client = dispatcher.real_time()?;
        let task = Task::new(rt.inference())?;
        let mut millis = Vec::new();
        for _ in 0..100 {
            thread::sleep(Duration::from_millis(20));
            millis.push(client.run(&task)?.total.as_secs_f64() * 1e3);
        }
        stop.store(true, Relaxed);
        Ok((millis, best_effort.join().expect("the client doesn't panic")?))
    })?;
    let rate = f64::from(inferences) / begin.elapsed().as_secs_f64();
    millis.sort_by(f64::total_cmp);
    let (p50, p90, preemptions) = (millis[50], millis[90], dispatcher.stats().preemptions);
    Ok(format!("{name:<9}  {p50:>9.2}  {p90:>9.2}  {rate:>13.1}  {preemptions:>11}"))
}
