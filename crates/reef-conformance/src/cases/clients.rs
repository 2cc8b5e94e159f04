//! Many clients of one dispatcher.

use crate::subject::{Cells, Rounds, cycles, doze, expect_finished, happened, rng, rounds_for};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reef_core::dkp::Profile;
use reef_core::scheduler::{self, Reef};
use reef_core::{
    ClientConfig, Colocation, Command, Config, Device, Dispatcher, Error, PreemptLevel, Task,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Under each scheduler, each client's work is done once and in order. Schedulers that preempt have
/// preempted some of it, and the others have let real-time work run next to it.
pub fn all_clients_finish_their_work<D: Device>(device: &D, level: PreemptLevel) {
    for name in scheduler::NAMES.into_iter().filter(|&name| name != "rt-only") {
        let scheduler = scheduler::by_name(name).unwrap();
        if scheduler.level() == level {
            println!("{name}");
            all_work_at_once(device, &Dispatcher::start(device, scheduler).unwrap(), level);
        }
    }
}

/// Three best-effort clients work for as long as real-time requests come: until enough of those met
/// their work.
fn all_work_at_once<D: Device>(device: &D, dispatcher: &Dispatcher<D>, level: PreemptLevel) {
    // Schedulers of the lowest level hold nothing back while real-time work runs.
    let preempts = level > PreemptLevel::HostQueue;
    let what = if preempts { "preemptions" } else { "requests during best-effort work" };
    let (wanted, ended, at_work) = (cycles() / 100, AtomicBool::new(false), AtomicU64::new(0));
    let (cells, mut requests, mut during) = (Cells::new(device, 3), 0, 0);
    let task = Task::new(vec![cells.append(1, 20); 4]).unwrap();
    let count = |during| if preempts { dispatcher.stats().preemptions } else { during };
    std::thread::scope(|scope| {
        for client in 0..3 {
            let (ended, at_work) = (&ended, &at_work);
            scope.spawn(move || best_effort(device, dispatcher, client, ended, at_work));
        }
        // Even where a check fails, the clients end.
        let _end = OnDrop(|| ended.store(true, Ordering::Relaxed));
        let mut rt = dispatcher.real_time().unwrap();
        let mut rounds = Rounds::new(20);
        while rounds.next(count(during), wanted) {
            std::thread::sleep(Duration::from_micros(500)); // sleep: pace of the requests
            during += u64::from(at_work.load(Ordering::Relaxed) > 0);
            rt.run(&task).unwrap();
            requests += 1;
        }
    });
    cells.expect((0..requests * 4).map(|_| 1));
    expect_finished(dispatcher, requests);
    happened(what, count(during), wanted);
}

/// Runs tasks, ten at least, until all is to end; `at_work` counts the clients whose work is not
/// done.
fn best_effort<D: Device>(
    device: &D,
    dispatcher: &Dispatcher<D>,
    client: i32,
    ended: &AtomicBool,
    at_work: &AtomicU64,
) {
    let config = ClientConfig::default().weight(1 + client as u32).priority(client);
    let mut be = dispatcher.best_effort(config).unwrap();
    let (cells, mut tasks) = (Cells::new(device, 5), 0);
    while tasks < 10 || !ended.load(Ordering::Relaxed) {
        at_work.fetch_add(1, Ordering::Relaxed);
        let task: Vec<_> = (0..5).map(|n| cells.append(5 * tasks + n, 30)).collect();
        be.run(&task).unwrap();
        at_work.fetch_sub(1, Ordering::Relaxed);
        tasks += 1;
    }
    cells.expect(0..5 * tasks);
}

/// Clients appear, work, and vanish in the middle of their work while real-time requests come in.
pub fn clients_come_and_go<D: Device>(device: &D, level: PreemptLevel) {
    let seed = u64::from(rng().random::<u32>());
    let dispatcher = Dispatcher::start(device, Reef::default().level(level)).unwrap();
    let (freed, ended) = (Arc::new(()), AtomicBool::new(false));
    let wanted = cycles() / 80;
    std::thread::scope(|scope| {
        for client in 0..4 {
            let (dispatcher, freed, ended) = (&dispatcher, freed.clone(), &ended);
            scope.spawn(move || {
                let mut rng = ChaCha8Rng::seed_from_u64(seed + client);
                let mut left = cycles() / 50;
                while left > 0 || !ended.load(Ordering::Relaxed) {
                    come_and_go(device, dispatcher, &freed, &mut rng);
                    left = left.saturating_sub(1);
                }
            });
        }
        // Even where a check fails, the clients end.
        let _end = OnDrop(|| ended.store(true, Ordering::Relaxed));
        let cells = Cells::new(device, 4);
        let mut rt = dispatcher.real_time().unwrap();
        let task = Task::new(vec![cells.append(2, 10); 2]).unwrap();
        let (mut rounds, mut requests) = (Rounds::new(cycles() / 20), 0);
        while rounds.next(dispatcher.stats().preemptions, wanted) {
            std::thread::sleep(Duration::from_micros(300)); // sleep: pace of the requests
            rt.run(&task).unwrap();
            requests += 1;
        }
        cells.expect((0..requests * 2).map(|_| 2));
    });
    happened("preemptions", dispatcher.stats().preemptions, wanted);
    assert_eq!(Arc::strong_count(&freed), 1, "what dropped clients had submitted is freed");
}

/// Runs its function when it is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn come_and_go<D: Device>(
    device: &D,
    dispatcher: &Dispatcher<D>,
    freed: &Arc<()>,
    rng: &mut ChaCha8Rng,
) {
    let mut be = dispatcher.best_effort(ClientConfig::default()).unwrap();
    let cells = Cells::new(device, 3);
    let tasks = rng.random_range(1..10);
    for value in 0..tasks {
        be.submit(&[cells.append(value, 20)]).unwrap();
    }
    let held = freed.clone();
    let last = be.submit(&[Command::Host(Arc::new(move || drop(held.clone())))]).unwrap();
    if rng.random() {
        be.wait(last).unwrap();
        cells.expect(0..tasks);
    } else {
        doze(rng, 200);
        drop(be); // with work queued
    }
}

/// Real-time kernels that leave units free are padded with blocks of clients that are preempted.
pub fn clients_pad_real_time_kernels<D: Device>(device: &D, level: PreemptLevel) {
    let mut rng = rng();
    let profile = |micros, round| {
        let round_micros = vec![round; 4];
        Arc::new(Profile { blocks: 1, micros, round_micros, ..Profile::default() })
    };
    let dispatcher = Dispatcher::start(device, Reef::default().level(level)).unwrap();
    let (rt_cells, be_cells) = (Cells::new(device, 1), [0, 1].map(|_| Cells::new(device, 24)));
    let mut clients = [0, 1].map(|_| dispatcher.best_effort(ClientConfig::default()).unwrap());
    let mut rt = dispatcher.real_time().unwrap();
    let task = |cells: &Cells<D>, spin| {
        let kernel = cells.launch(1, spin).with_profile(profile(1000, 1000));
        Task::new(vec![Command::Launch(kernel); 20]).unwrap()
    };
    let task = task(&rt_cells, long_enough(device, |cells, spin| rt.run(&task(cells, spin))));
    // The machine decides when a client has stopped in time for a kernel to be padded: go on until
    // one has.
    let pads = match device.colocation() {
        Colocation::Padded => true,
        Colocation::Capped(_) => level >= PreemptLevel::DeviceQueue,
        Colocation::Never => false,
    };
    let spare = device.info().units > 1 && pads;
    let begin = Instant::now();
    let lasts = |secs| begin.elapsed() < Duration::from_secs(secs);
    let mut rounds = 0;
    while (rounds < cycles().div_ceil(50) && lasts(60))
        || (spare && dispatcher.stats().padded_launches == 0 && lasts(180))
    {
        let round = rounds;
        rounds += 1;
        for (client, cells) in clients.iter_mut().zip(&be_cells) {
            let be = cells.launch(round, rng.random_range(0..60)).with_profile(profile(1, 1));
            client.submit(&vec![Command::Launch(be); 4]).unwrap();
        }
        doze(&mut rng, 200);
        rt.run(&task).unwrap();
    }
    for (client, cells) in clients.iter_mut().zip(&be_cells) {
        let last = client.submitter().submitted().0 - 1;
        client.wait(reef_core::Seq(last)).unwrap();
        cells.expect((0..4 * rounds).map(|n| n / 4));
    }
    rt_cells.expect((0..20 * rounds).map(|_| 1));
    let padded = dispatcher.stats().padded_launches;
    println!("{padded} padded launches");
    assert_eq!(padded > 0, spare, "units to spare: {spare}");
}

/// Best-effort kernels end although real-time requests come faster than a kernel takes: a block is
/// stopped twice, then it runs through.
pub fn best_effort_work_ends_next_to_faster_requests<D: Device>(device: &D, level: PreemptLevel) {
    const KERNEL: Duration = Duration::from_millis(20);
    const PERIOD: Duration = Duration::from_millis(2);
    let dispatcher = Dispatcher::start(device, Reef::default().level(level)).unwrap();
    let (rt_cells, be_cells) = (Cells::new(device, 1), Cells::new(device, device.info().units));
    let kernel = be_cells.append(1, rounds_for(device, KERNEL));
    let mut be = dispatcher.best_effort(ClientConfig::default()).unwrap();
    let mut rt = dispatcher.real_time().unwrap();
    let task = Task::new([rt_cells.append(1, 0)]).unwrap();
    // Where a kernel is not stopped midway, few requests find one to preempt.
    let wanted = if level == PreemptLevel::All { 3 } else { 1 };
    let (mut rounds, mut kernels, mut requests) = (Rounds::new(1), 0, 0);
    while rounds.next(dispatcher.stats().preemptions, wanted) {
        let last = be.submit(&vec![kernel.clone(); 3]).unwrap();
        kernels += 3;
        let start = Instant::now();
        while be.submitter().completed() <= last {
            assert!(start.elapsed() < Duration::from_secs(60), "starved by {requests} requests");
            rt.run(&task).unwrap();
            requests += 1;
            std::thread::sleep(PERIOD); // sleep: pace of the requests
        }
        println!("{requests} requests, 3 kernels of {KERNEL:?} in {:?}", start.elapsed());
    }
    be_cells.expect((0..kernels).map(|_| 1));
    rt_cells.expect((0..requests).map(|_| 1));
    happened("preemptions", dispatcher.stats().preemptions, wanted);
}

/// Returns the rounds after which queues go on narrow next to `run`, where the device does that;
/// else a few.
fn long_enough<D: Device>(
    device: &D,
    mut run: impl FnMut(&Cells<D>, u64) -> reef_core::Result<reef_core::Timing>,
) -> u64 {
    let (cells, mut spin) = (Cells::new(device, 1), 100);
    let is_narrow = matches!(device.colocation(), Colocation::Capped(_));
    while is_narrow && run(&cells, spin).unwrap().total < Duration::from_millis(30) {
        spin *= 2;
    }
    spin
}

pub fn a_burst_preempts_once<D: Device>(device: &D, level: PreemptLevel) {
    // On a busy machine the submitting thread may pause for longer than best-effort work is kept
    // waiting, in a submission too: then the tasks are not a burst.
    assert!((0..20).any(|_| burst(device, level)), "20 bursts were interrupted");
}

/// Submits 50 tasks at once; false if there was a pause between them.
///
/// Without padding: next to a burst of more than 10 ms best-effort work would run capped, and be
/// held once more at the burst's end.
fn burst<D: Device>(device: &D, level: PreemptLevel) -> bool {
    const HYSTERESIS: Duration = Duration::from_millis(200);
    let reef = Reef::without_padding().level(level).hysteresis(HYSTERESIS);
    let dispatcher = Dispatcher::start(device, reef).unwrap();
    let cells = Cells::new(device, 2);
    let task = Task::new(vec![cells.append(1, 0)]).unwrap();
    let mut rt = dispatcher.real_time().unwrap();
    rt.run(&task).unwrap(); // the device may load the kernel at its first launch
    best_effort_resumes(&dispatcher);
    let before = dispatcher.stats().preemptions;
    let tickets: Vec<_> = (0..50).map(|_| rt.submit(&task).unwrap()).collect();
    let timings: Vec<_> = tickets.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
    assert!(
        timings.is_sorted_by_key(|timing| timing.submitted + timing.delay),
        "first in, first out"
    );
    cells.expect([1; 51]);
    let ends = timings.iter().map(|timing| timing.submitted + timing.total);
    let begins = timings[1..].iter().map(|timing| timing.submitted + timing.delay);
    let pauses = ends.zip(begins).map(|(end, next)| next.saturating_sub(end));
    let paused = pauses.max() > Some(HYSTERESIS / 2);
    let preemptions = dispatcher.stats().preemptions - before;
    best_effort_resumes(&dispatcher);
    if !paused {
        assert_eq!(preemptions, 1, "in one burst");
    }
    !paused
}

fn best_effort_resumes<D: Device>(dispatcher: &Dispatcher<D>) {
    let end = Instant::now() + Duration::from_secs(60);
    while dispatcher.is_preempted() {
        assert!(Instant::now() < end, "best-effort work may resume");
        std::thread::sleep(Duration::from_millis(10)); // sleep: poll of a condition
    }
}

pub fn dropped_dispatcher_answers_all_clients<D: Device>(device: &D, level: PreemptLevel) {
    let dispatcher = Dispatcher::start(device, Reef::default().level(level)).unwrap();
    let cells = Cells::new(device, 2);
    let mut rt = dispatcher.real_time().unwrap();
    let queue = Config::default().capacity(64);
    let mut be = dispatcher.best_effort(ClientConfig::default().queue(queue)).unwrap();
    let mut commands = vec![cells.append(1, 2000); 40];
    commands.push(Command::Wait(device.event().unwrap())); // or all may end before the dispatcher
    let last = be.submit(&commands).unwrap();
    let task = Task::new(vec![Cells::new(device, 2).append(1, 10)]).unwrap();
    let tickets: Vec<_> = (0..5).map(|_| rt.submit(&task).unwrap()).collect();
    drop(dispatcher);
    assert_eq!(be.wait(last), Err(Error::Cancelled));
    for ticket in tickets {
        assert!(matches!(ticket.wait(), Ok(_) | Err(Error::Cancelled)));
    }
    assert_eq!(rt.run(&task).unwrap_err(), Error::Cancelled);
}
