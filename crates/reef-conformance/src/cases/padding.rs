//! Best-effort blocks as padding of real-time kernels.

use crate::run::skip;
use crate::subject::{
    Cells, Rounds, appended, cycles, doze, event_timeout, happened, rng, rounds_for,
};
use rand::RngExt;
use reef_core::dkp::{Padding, Profile};
use reef_core::scheduler::Reef;
use reef_core::{
    Checkpoint, ClientConfig, Colocation, Command, Device, Dispatcher, Drained, PreemptLevel,
    Preemptor, Priority, Queue, Seq, Task,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Returns whether the device pads each real-time kernel by itself; prints a message if not.
fn pads<D: Device>(device: &D) -> bool {
    let pads = device.colocation() == Colocation::Padded;
    if !pads {
        skip(&format!("{} doesn't pad kernel by kernel", D::NAME));
    }
    pads
}

/// Returns whether the device has capped queues that can be preempted at this level before a kernel
/// has ended; prints a message if not.
fn caps<D: Device>(device: &D, level: PreemptLevel) -> bool {
    let is_capped = matches!(device.colocation(), Colocation::Capped(_));
    let caps = is_capped && level >= PreemptLevel::DeviceQueue;
    if !caps {
        skip(&format!("{} has no capped queues at level {level}", D::NAME));
    }
    caps
}

fn wait<Q: Queue>(queue: &mut Q, end: u64) {
    while queue.completed().unwrap() < Seq(end) {
        std::thread::yield_now();
    }
}

/// A best-effort kernel runs bit by bit: some blocks as padding, some on its own queue, in any mix.
pub fn padded_blocks_run_once<D: Device>(device: &D, _: PreemptLevel) {
    if !pads(device) {
        return;
    }
    let mut rng = rng();
    let units = device.info().units;
    let rt_cells = Cells::new(device, 1);
    let mut rt = device.queue(Priority::RealTime, None).unwrap();
    let mut be = device.queue(Priority::BestEffort, None).unwrap();
    let (mut rt_next, mut be_next) = (0, 0);
    // Kernels of which padding ran a part, and their queue the rest.
    let (mut shared, wanted) = (0, if units > 1 { cycles() / 200 } else { 0 });
    let mut rounds = Rounds::new(cycles() / 20);
    while rounds.next(shared, wanted) {
        let be_cells = Cells::new(device, rng.random_range(1..40));
        let launch = be_cells.launch(5, rng.random_range(0..20));
        let record = device.checkpoint(&launch).unwrap();
        for _ in 0..rng.random_range(1..6) {
            let rt_units = rng.random_range(0..=units);
            let be_blocks = rng.random_range(1..20);
            let padding = Padding { rt_units, be_per_unit: 1, be_blocks };
            let kernel = rt_cells.launch(1, rng.random_range(1..40));
            rt.launch_padded(Seq(rt_next), &kernel, &padding, &launch, &record).unwrap();
            rt_next += 1;
            if rng.random() {
                wait(&mut rt, rt_next);
            }
        }
        shared += u64::from((1..launch.blocks()).contains(&record.remaining()));
        be.launch(Seq(be_next), &launch, Some(&record)).unwrap();
        be_next += 1;
        wait(&mut be, be_next);
        assert_eq!(record.remaining(), 0);
        be_cells.expect([5]);
    }
    wait(&mut rt, rt_next);
    rt_cells.expect((0..rt_next).map(|_| 1));
    happened("kernels were shared by padding and their queue", shared, wanted);
}

/// Long best-effort blocks next to a short kernel are stopped, not waited for.
pub fn padding_never_outlasts_its_kernel<D: Device>(device: &D, _: PreemptLevel) {
    if !pads(device) {
        return;
    }
    endless_blocks_are_stopped(device);
    if device.info().units > 1 {
        let mut rounds = Rounds::new(1);
        let (mut stopped, wanted) = (0, 1);
        while rounds.next(stopped, wanted) {
            stopped += u64::from(is_stopped_twice_first(device));
        }
        happened("kernels took effect as padding after they had been stopped", stopped, wanted);
    }
}

const PADDING: Padding = Padding { rt_units: 1, be_per_unit: 1, be_blocks: 4 };

fn endless_blocks_are_stopped<D: Device>(device: &D) {
    let mut rt = device.queue(Priority::RealTime, None).unwrap();
    let rt_cells = Cells::new(device, 1);
    let be_cells = Cells::new(device, 4);
    let endless = be_cells.launch(5, 1 << 40);
    let record = device.checkpoint(&endless).unwrap();
    for i in 0..2 {
        rt.launch_padded(Seq(i), &rt_cells.launch(1, 100), &PADDING, &endless, &record).unwrap();
        wait(&mut rt, i + 1);
    }
    while rt.padding_ended().unwrap() < Seq(2) {
        std::thread::yield_now();
    }
    assert_eq!(record.remaining(), 4, "no block took effect");
    assert_eq!(be_cells.read(), [0; 4]);
    rt_cells.expect([1, 1]);
}

/// Pads short kernels with a long one until a block of it takes effect. Blocks that were stopped
/// twice run through, so that shows that they had started. Returns `false` if one took effect next
/// to the first two kernels, which other work had delayed.
fn is_stopped_twice_first<D: Device>(device: &D) -> bool {
    let [short, long] = [300, 6000].map(|micros| rounds_for(device, Duration::from_micros(micros)));
    let (rt_cells, be_cells) = (Cells::new(device, 1), Cells::new(device, 4));
    let mut rt = device.queue(Priority::RealTime, None).unwrap();
    let (rt_launch, be_launch) = (rt_cells.launch(1, short), be_cells.launch(5, long));
    let (record, start) = (device.checkpoint(&be_launch).unwrap(), Instant::now());
    let mut kernels = 0;
    while record.remaining() == 4 {
        let is_late = kernels > MAX_KERNELS && start.elapsed() > event_timeout();
        assert!(!is_late, "no padding took effect next to {kernels} kernels");
        rt.launch_padded(Seq(kernels), &rt_launch, &PADDING, &be_launch, &record).unwrap();
        kernels += 1;
        wait(&mut rt, kernels);
    }
    let mut be = device.queue(Priority::BestEffort, None).unwrap();
    be.launch(Seq(0), &be_launch, Some(&record)).unwrap();
    wait(&mut be, 1);
    be_cells.expect([5]);
    kernels > 2
}

/// Many more kernels than the first block of a padding takes that is stopped twice.
const MAX_KERNELS: u64 = 2000;

/// Much longer than kernels take that run as padding, where a busy machine has most of them run in
/// pauses of real-time work.
const PADDING_TIMEOUT: Duration = Duration::from_secs(180);

/// Best-effort kernels end although real-time work never leaves the device: as padding.
pub fn best_effort_work_ends_as_padding_alone<D: Device>(device: &D, level: PreemptLevel) {
    if !pads(device) || device.info().units < 2 {
        return;
    }
    let dispatcher = Dispatcher::start(device, Box::new(Reef::default().level(level))).unwrap();
    let (rt_cells, be_cells) = (Cells::new(device, 1), Cells::new(device, 4));
    let mut rt = dispatcher.real_time().unwrap();
    let task = padded_task(device, &rt_cells);
    let mut tickets = VecDeque::from([(); 3].map(|()| rt.submit(&task).unwrap()));
    let mut be = dispatcher.best_effort(ClientConfig::default()).unwrap();
    let kernel = be_cells.launch(1, 20).with_profile(profile(20, 20));
    let (start, mut tasks, mut kernels) = (Instant::now(), 3, 0);
    // Some run in a pause, if this thread has no processor for as long as three tasks take.
    while dispatcher.stats().padded_launches < 8 {
        let last = be.submit(&vec![Command::Launch(kernel.clone()); 8]).unwrap();
        kernels += 8;
        while be.submitter().completed() <= last {
            assert!(start.elapsed() < PADDING_TIMEOUT, "starved by {tasks} tasks");
            tickets.pop_front().expect("there are three").wait().unwrap();
            tickets.push_back(rt.submit(&task).unwrap());
            tasks += 1;
        }
    }
    be_cells.expect((0..kernels).map(|_| 1));
    tickets.into_iter().for_each(|ticket| assert!(ticket.wait().is_ok()));
    rt_cells.expect((0..tasks * TASK_KERNELS).map(|_| 1));
}

/// A client that leaves while its blocks pad real-time kernels leaves a prefix of its kernels, and
/// none of them takes effect later. Real-time work meets nothing of it.
pub fn a_client_leaves_while_it_pads<D: Device>(device: &D, level: PreemptLevel) {
    if !pads(device) || device.info().units < 2 {
        return;
    }
    let mut rng = rng();
    let dispatcher = Dispatcher::start(device, Box::new(Reef::default().level(level))).unwrap();
    let rt_cells = Cells::new(device, 1);
    let mut rt = dispatcher.real_time().unwrap();
    let task = padded_task(device, &rt_cells);
    let prefixes: Vec<u64> = (0..=KERNELS).map(|n| appended(0..n)).collect();
    let (mut left, wanted, mut tasks) = (0, 2, 0);
    let mut rounds = Rounds::new(cycles() / 100);
    while rounds.next(left, wanted) {
        let cells = Cells::new(device, 6);
        let before = dispatcher.stats().padded_launches;
        let mut be = dispatcher.best_effort(ClientConfig::default()).unwrap();
        let mut kernel = |value| {
            let launch = cells.launch(value, rng.random_range(0..100));
            Command::Launch(launch.with_profile(profile(20, 20)))
        };
        be.submit(&(0..KERNELS).map(&mut kernel).collect::<Vec<_>>()).unwrap();
        let ticket = rt.submit(&task).unwrap();
        tasks += 1;
        doze(&mut rng, 4000);
        drop(be);
        let ends = cells.read();
        let pads = dispatcher.stats().padded_launches > before && ticket.try_wait().is_none();
        let done = |cell: &u64| prefixes.iter().rposition(|prefix| prefix == cell);
        let done: Vec<_> = ends.iter().map(|cell| done(cell).expect("a prefix")).collect();
        let (least, most) = (done.iter().min().unwrap(), done.iter().max().unwrap());
        assert!(most - least <= 1, "level {level}: {done:?}");
        ticket.wait().unwrap();
        assert_eq!(cells.read(), ends, "something took effect after its client had left");
        left += u64::from(pads && *least < KERNELS as usize);
    }
    rt_cells.expect((0..tasks * TASK_KERNELS).map(|_| 1));
    happened("clients left while they padded", left, wanted);
}

/// Kernels of a client that leaves, and of a real-time task.
const KERNELS: u64 = 12;
const TASK_KERNELS: u64 = 20;

/// A task whose kernels leave all units but one free, each for long enough that the host sees it.
fn padded_task<D: Device>(device: &D, cells: &Cells<D>) -> Task<D> {
    let rounds = rounds_for(device, Duration::from_micros(300));
    let kernel = cells.launch(1, rounds).with_profile(profile(300, 300));
    Task::new(vec![Command::Launch(kernel); TASK_KERNELS as usize]).unwrap()
}

/// Of a kernel, with up to four of its blocks on a unit.
fn profile(micros: u32, round: u32) -> Arc<Profile> {
    let round_micros = vec![round; 4];
    Arc::new(Profile { blocks: 1, micros, round_micros, ..Profile::default() })
}

/// On a capped queue, where blocks of a kernel may take turns, each runs once however often it is
/// evicted.
pub fn a_capped_queue_runs_each_block_once<D: Device>(device: &D, level: PreemptLevel) {
    if !caps(device, level) {
        return;
    }
    let mut rng = rng();
    let preemptor = device.preemptor(level).unwrap();
    let mut queue = device.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
    queue.cap_blocks(Some(3));
    let (mut cut, wanted) = (0, cycles() / 100);
    let (mut rounds, mut next) = (Rounds::new(cycles() / 20), 0);
    while rounds.next(cut, wanted) {
        let cells = Cells::new(device, rng.random_range(4..40));
        let launch = cells.launch(5, rng.random_range(0..60));
        let mut left = None;
        loop {
            queue.launch(Seq(next), &launch, left.as_ref()).unwrap();
            doze(&mut rng, 500);
            let drained = evict::<D>(&preemptor, &mut queue);
            if drained.resume_at == Seq(next + 1) {
                break;
            }
            left = drained.partial;
            let remaining = left.as_ref().map_or(launch.blocks(), Checkpoint::remaining);
            cut += u64::from(remaining < launch.blocks());
        }
        cells.expect([5]);
        next += 1;
    }
    happened("evictions left a part of a kernel", cut, wanted);
}

/// Kernels and graphs of a queue whose width and part of the units change in between run in their
/// order, each block once, however often it is evicted.
pub fn a_queue_changes_its_width_in_order<D: Device>(device: &D, level: PreemptLevel) {
    if !caps(device, level) {
        return;
    }
    let mut rng = rng();
    let preemptor = device.preemptor(level).unwrap();
    let mut queue = device.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
    let mut next = 0;
    for _ in 0..cycles() / 20 {
        let cells = Cells::new(device, rng.random_range(4..40));
        let mut append = |value| cells.append(value, rng.random_range(0..60));
        let ([first, last], inside) = ([5, 13].map(&mut append), [7, 11].map(append));
        let (middle, values) = match device.graph(&inside) {
            Ok(graph) => (vec![Command::Graph(graph); 3], [7, 11].repeat(3)),
            Err(_) => (inside.into(), vec![7, 11]), // devices may have none
        };
        let commands = [vec![first], middle, vec![last]].concat();
        let (mut done, mut left) = (0, None);
        while done < commands.len() {
            for (at, command) in commands.iter().enumerate().skip(done) {
                queue.cap_blocks(rng.random_bool(0.5).then_some(3));
                queue.run_on(if rng.random_bool(0.5) { 40 } else { 100 });
                launch::<D>(&mut queue, next + at as u64, command, left.take().as_ref());
            }
            doze(&mut rng, 500);
            let drained = evict::<D>(&preemptor, &mut queue);
            (done, left) = ((drained.resume_at.0 - next) as usize, drained.partial);
        }
        cells.expect([vec![5], values, vec![13]].concat());
        next += commands.len() as u64;
    }
}

fn launch<D: Device>(
    queue: &mut D::Queue,
    seq: u64,
    command: &Command<D>,
    left: Option<&D::Checkpoint>,
) {
    match command {
        Command::Launch(kernel) => queue.launch(Seq(seq), kernel, left).unwrap(),
        Command::Graph(graph) => queue.launch_graph(Seq(seq), graph, left).unwrap(),
        other => unreachable!("{other:?}"),
    }
}

/// Evicts the queue as deeply as its level goes, and lets it go on. Returns what it has left.
fn evict<D: Device>(preemptor: &D::Preemptor, queue: &mut D::Queue) -> Drained<D> {
    preemptor.evict().unwrap();
    if preemptor.level() == PreemptLevel::All {
        preemptor.reset().unwrap();
    }
    let start = Instant::now();
    let drained = loop {
        assert!(start.elapsed() < Duration::from_secs(60), "an eviction takes a minute");
        match queue.try_drain().unwrap() {
            Some(drained) => break drained,
            None => std::thread::yield_now(),
        }
    };
    preemptor.reactivate().unwrap();
    drained
}
