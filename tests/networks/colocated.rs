//! Networks give equal results next to others.

use crate::open;
use crate::subject::Subject;
#[cfg(feature = "cuda")]
use crate::subject::run_alone;
#[cfg(feature = "cuda")]
use reef::Command;
use reef::op::Operators;
use reef::scheduler::{self, Reef, Scheduler};
use reef::{ClientConfig, Colocation, Dispatcher, Stats, Task};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time that only ends a wait for ever.
const LONG: Duration = Duration::from_secs(60);

/// Runs `rt` `turns` times next to `be`, whose clients each run at least twice, and checks all of
/// them.
fn run_colocated<D: Operators>(
    device: &D,
    scheduler: Box<dyn Scheduler>,
    rt: &Subject<D>,
    be: &[Subject<D>],
    turns: usize,
) -> Stats {
    run_colocated_tasks(device, scheduler, rt, be, turns, 1)
}

/// As [`run_colocated`], with tasks of `times` inferences each.
fn run_colocated_tasks<D: Operators>(
    device: &D,
    scheduler: Box<dyn Scheduler>,
    rt: &Subject<D>,
    be: &[Subject<D>],
    turns: usize,
    times: usize,
) -> Stats {
    let name = scheduler.name();
    let dispatcher = Dispatcher::start(device, scheduler).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for subject in be {
            scope.spawn(|| {
                let mut client = dispatcher.best_effort(ClientConfig::default()).unwrap();
                let mut turn = 0;
                while turn < 2 || !stop.load(Ordering::Acquire) {
                    client.run(&subject.stage(turn)).unwrap();
                    subject.check(turn, name);
                    turn += 1;
                }
            });
        }
        let mut client = dispatcher.real_time().unwrap();
        for turn in 0..turns {
            thread::sleep(Duration::from_millis(2)); // sleep: pace of the requests
            let inference = rt.stage(turn);
            let commands = std::iter::repeat_n(&*inference, times).flatten().cloned();
            client.run(&Task::new(commands.collect::<Vec<_>>()).unwrap()).unwrap();
            rt.check(turn, name);
        }
        stop.store(true, Ordering::Release);
    });
    let begin = Instant::now();
    // The pass in which the last ended may be another thread's, which counts it afterwards.
    while dispatcher.stats().rt_finished < turns as u64 && begin.elapsed() < LONG {
        thread::yield_now();
    }
    let stats = dispatcher.stats();
    assert_eq!(stats.rt_finished, turns as u64, "{name}");
    println!("{name}: {stats:?}");
    stats
}

pub(crate) fn every_scheduler_leaves_every_network_as_it_is<D: Operators>(device: &D) {
    let rt = Subject::load(device, "resnet18", 64).measured();
    let be = [("densenet121", 64), ("resnet50", 64)];
    let be = be.map(|(name, size)| Subject::load(device, name, size).measured());
    for name in scheduler::NAMES.into_iter().filter(|&name| name != "rt-only") {
        run_colocated(device, scheduler::by_name(name).unwrap(), &rt, &be, 20);
    }
}

/// On many units the launches of a small network leave some free, and REEF fills them.
pub(crate) fn padding_changes_no_network<D: Operators>(device: &D, rt: &str, size: usize) {
    let rt = Subject::load(device, rt, size).measured();
    let be = [Subject::load(device, "densenet121", 64).measured()];
    assert_eq!(device.colocation(), Colocation::Padded);
    // When a client has stopped in time for a launch to be padded is the machine's affair.
    let mut stats = (0..50).map(|_| run_colocated(device, Box::new(Reef::default()), &rt, &be, 20));
    assert!(stats.any(|stats| stats.padded_launches > 0), "nothing was padded");
}

/// Launches of several convolutions are padded with blocks of others, and pad them. When that
/// happens is the machine's affair.
#[cfg(feature = "cuda")]
pub(crate) fn padding_leaves_branches_as_they_are<D: Operators>(device: &D) {
    assert_eq!(device.colocation(), Colocation::Padded);
    let load = || Subject::load(device, "inception_v3", 96).measured();
    let (rt, be) = (load(), [load()]);
    for _ in 0..5 {
        run_colocated(device, Box::new(Reef::default()), &rt, &be, 20);
    }
}

/// Whole queues run narrow next to real-time work that takes long, such as a task of this number of
/// inferences.
#[cfg(feature = "cuda")]
pub(crate) fn narrow_queues_change_no_network<D: Operators>(device: &D) {
    /// Longer than work is stopped before it runs narrow, by far.
    const TASK: Duration = Duration::from_millis(60);
    let rt = Subject::load(device, "resnet18", 64);
    let once = (0..3).map(|_| time_alone(device, &rt.stage(0))).min().expect("three");
    let times = TASK.div_duration_f64(once).ceil() as usize;
    let be = [("densenet121", 64), ("inception_v3", 96)];
    let be = be.map(|(name, size)| Subject::load(device, name, size));
    let stats = run_colocated_tasks(device, Box::new(Reef::default()), &rt, &be, 20, times);
    assert!(matches!(device.colocation(), Colocation::Capped(_)));
    assert!(stats.padded_launches > 0, "{stats:?}");
}

/// Returns the time of commands on a queue of their own, from the first submission.
#[cfg(feature = "cuda")]
fn time_alone<D: Operators>(device: &D, commands: &[Command<D>]) -> Duration {
    let start = Instant::now();
    run_alone(device, commands);
    start.elapsed()
}

/// Each on a device of its own, opened with an ordinal.
pub(crate) fn two_devices_work_at_the_same_time<D: Operators>(ordinals: [usize; 2], options: &str) {
    thread::scope(|scope| {
        for ordinal in ordinals {
            scope.spawn(move || {
                let Some(device) = open::<D>(ordinal, options) else { return };
                let rt = Subject::load(&device, "resnet18", 64);
                let be = [Subject::load(&device, "resnet50", 64)];
                let run = |_| run_colocated(&device, Box::new(Reef::default()), &rt, &be, 20);
                let mut stats = (0..50).map(run); // best-effort work may be late
                assert!(stats.any(|stats| stats.preemptions > 0), "nothing was preempted");
            });
        }
    });
}
