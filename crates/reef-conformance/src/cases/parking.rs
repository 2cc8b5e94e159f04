//! Queues that are taken off the device continue in another queue, exact to the block.

use crate::run::skip;
use crate::subject::{Cells, Rounds, appended, cycles, doze, happened, rng, rounds_for};
use rand::{Rng, RngExt};
use reef_core::scheduler::Reef;
use reef_core::{
    Blocks, ClientConfig, Command, Config, Device, Dispatcher, Error, Group, Parked, PreemptLevel,
    Seq, Submitter, Task, VirtualQueue,
};
use std::sync::Arc;
use std::time::Duration;

/// Length of the kernels that are stopped in their middle.
const LONG_KERNEL: Duration = Duration::from_micros(500);
/// Largest number of blocks of a command.
const MAX_BLOCKS: u32 = 11;

/// A queue and its work, which is parked and continued again and again.
struct Journey<'a, D: Device> {
    device: &'a D,
    config: Config,
    cells: Cells<D>,
    submitter: Submitter<D>,
    queue: VirtualQueue<D>,
}

impl<'a, D: Device> Journey<'a, D> {
    fn begin(device: &'a D, config: Config, blocks: u32) -> Self {
        let (submitter, queue) = VirtualQueue::enable(device, config).unwrap();
        Self { device, config, cells: Cells::new(device, blocks), submitter, queue }
    }

    /// Parks the queue and continues it in a group of its own. Returns whether some blocks of a
    /// command had run and others not; `None` if the device can't tell which.
    fn park(self) -> (Self, Option<bool>) {
        let Self { device, config, cells, submitter, queue } = self;
        let submitted = submitter.submitted();
        queue.preempt(true).unwrap();
        let parked = match queue.park(submitter) {
            Ok(parked) => parked,
            Err((Error::Unsupported { .. } | Error::State { .. }, submitter, queue)) => {
                queue.restore().unwrap();
                return (Self { device, config, cells, submitter, queue }, None);
            }
            Err((error, ..)) => panic!("{error}"),
        };
        let left = parked.commands().len() as u64;
        assert_eq!(parked.completed().0 + left, submitted.0, "each command is done or left");
        let is_partial = parked.partial().is_some();
        let group = Group::open(device, config.level).unwrap();
        let (submitter, queue) = group.enable_parked(config, parked).unwrap();
        assert_eq!(submitter.submitted(), submitted, "positions go on");
        (Self { device, config, cells, submitter, queue }, Some(is_partial))
    }
}

/// Returns whether blocks of a command have run and others not: the running ones are stopped, or
/// not all of them begin at once.
fn is_left_in_the_middle<D: Device>(device: &D, level: PreemptLevel) -> bool {
    match level {
        PreemptLevel::HostQueue => false,
        PreemptLevel::DeviceQueue => device.info().units < MAX_BLOCKS,
        PreemptLevel::All => true,
    }
}

pub fn a_parked_queue_continues_elsewhere<D: Device>(device: &D, level: PreemptLevel) {
    let mut rng = rng();
    let long = rounds_for(device, LONG_KERNEL);
    let stops = is_left_in_the_middle(device, level);
    let (mut parks, mut partial, mut refused, wanted) = (0, 0, 0, cycles() / 50);
    let mut rounds = Rounds::new(cycles().div_ceil(200));
    while rounds.next(if stops { partial } else { parks }, wanted) {
        let config = Config::default().level(level).window(rng.random_range(1..6));
        let mut journey = Journey::begin(device, config, rng.random_range(3..=MAX_BLOCKS));
        let mut values = Vec::new();
        for _ in 0..40 {
            for _ in 0..rng.random_range(1..6) {
                let value = rng.random_range(1..100);
                let rounds = if rng.random_ratio(1, 4) { long } else { rng.random_range(0..60) };
                journey.submitter.submit_blocking(journey.cells.append(value, rounds)).unwrap();
                values.push(value);
            }
            doze(&mut rng, 300);
            let (next, is_partial) = journey.park();
            journey = next;
            refused += u64::from(is_partial.is_none());
            parks += u64::from(is_partial.is_some());
            partial += u64::from(is_partial == Some(true));
        }
        journey.queue.finish().unwrap();
        journey.cells.expect(values);
        if refused > 0 {
            return skip(&format!("{} can't park each queue at level {level}", D::NAME));
        }
    }
    println!("{parks} parks, {partial} in the middle of a command");
    let (what, have) =
        if stops { ("parks in the middle of a command", partial) } else { ("parks", parks) };
    happened(what, have, wanted);
}

/// Of any blocks, a queue runs those that are left and no others.
pub fn only_blocks_that_are_left_run<D: Device>(device: &D, level: PreemptLevel) {
    let mut rng = rng();
    for _ in 0..cycles().div_ceil(20) {
        let total = rng.random_range(1..40);
        let left: Vec<u32> = (0..total).filter(|_| rng.random()).collect();
        let cells = Cells::new(device, total);
        let blocks = Blocks::of_indices(total, 0, left.clone()).unwrap();
        let commands = vec![cells.append(5, 10), cells.append(2, 0)];
        let parked = Parked::new(Seq(7), commands, Some(blocks)).unwrap();
        let config = Config::default().level(level);
        let (submitter, queue) = match VirtualQueue::enable_parked(device, config, parked) {
            Err(Error::Unsupported { .. }) => {
                return skip(&format!("{} continues nothing from blocks", D::NAME));
            }
            other => other.unwrap(),
        };
        submitter.wait(Seq(8)).unwrap();
        queue.finish().unwrap();
        let want = |block| if left.contains(&block) { appended([5, 2]) } else { 2 };
        assert_eq!(cells.read(), (0..total).map(want).collect::<Vec<_>>(), "of {left:?}");
        refuses_blocks_of_others(device, &cells, total);
    }
}

/// Blocks of a launch with more or fewer, of a graph, of a copy.
fn refuses_blocks_of_others<D: Device>(device: &D, cells: &Cells<D>, total: u32) {
    let wrong = [(total + 1, 0), (total - 1, 0), (total, 1)];
    for (total, node) in wrong {
        let blocks = Blocks::new(total, node, Vec::new()).unwrap();
        let error = device.checkpoint_of(&cells.append(1, 0), &blocks).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{total} blocks of launch {node}: {error}");
    }
}

/// A queue with host code or events is not parked, the error names the position, and the queue
/// continues.
pub fn host_code_and_events_are_not_parked<D: Device>(device: &D, level: PreemptLevel) {
    let event = device.event().unwrap();
    let code = || Command::Host(Arc::new(|| ()));
    for (what, command) in
        [("a host function", code()), ("an event", Command::Record(event.clone()))]
    {
        let (mut submitter, queue) =
            VirtualQueue::enable(device, Config::default().level(level)).unwrap();
        let cells = Cells::new(device, 3);
        let error = match queue.park(submitter) {
            Err((error, back, queue)) => {
                submitter = back;
                queue.preempt(true).unwrap();
                submitter.submit(cells.append(1, 0)).unwrap();
                submitter.submit(command).map_err(drop).unwrap();
                submitter.submit(cells.append(2, 0)).unwrap();
                let (refused, back, queue) = queue.park(submitter).unwrap_err();
                assert!(refused.to_string().starts_with(&format!("command 1: {what} can't")));
                queue.restore().unwrap();
                back.wait(Seq(2)).unwrap();
                queue.finish().unwrap();
                cells.expect([1, 2]);
                error
            }
            Ok(_) => panic!("parked while it runs"),
        };
        assert_eq!(error, Error::state("parking a queue", "it runs: preempt it first"));
    }
}

/// Clients of a dispatcher are parked and continued while real-time work comes.
pub fn parked_clients_continue<D: Device>(device: &D, level: PreemptLevel) {
    let mut rng = rng();
    let dispatcher = Dispatcher::start(device, Reef::default().level(level)).unwrap();
    let mut rt = dispatcher.real_time().unwrap();
    let (rt_cells, mut requests) = (Cells::new(device, 4), 0);
    let task = Task::new(vec![rt_cells.append(2, 10); 2]).unwrap();
    let (cells, other_cells) = (Cells::new(device, 5), Cells::new(device, 3));
    let mut other = dispatcher.best_effort(ClientConfig::default()).unwrap();
    let mut be = dispatcher.best_effort(ClientConfig::default()).unwrap();
    let (mut values, mut others, mut parks, mut refused) = (Vec::new(), Vec::new(), 0, false);
    for _ in 0..cycles() / 10 {
        let task_of = |rng: &mut dyn Rng| (0..4).map(|_| rng.random_range(1..9)).collect();
        let new: Vec<u64> = task_of(&mut rng);
        let commands: Vec<_> = new.iter().map(|&value| cells.append(value, 100)).collect();
        be.submit(&commands).unwrap();
        values.extend(new);
        let new: Vec<u64> = task_of(&mut rng);
        let commands: Vec<_> = new.iter().map(|&value| other_cells.append(value, 100)).collect();
        other.submit(&commands).unwrap();
        others.extend(new);
        let ticket = rng.random::<bool>().then(|| rt.submit(&task).unwrap());
        doze(&mut rng, 200);
        be = match be.park() {
            Ok(parked) => {
                parks += 1;
                doze(&mut rng, 50);
                dispatcher.best_effort_parked(ClientConfig::default(), parked).unwrap()
            }
            Err((Error::Unsupported { .. } | Error::State { .. }, be)) => {
                refused = true;
                be
            }
            Err((error, _)) => panic!("{error}"),
        };
        if let Some(ticket) = ticket {
            ticket.wait().unwrap();
            requests += 2;
        }
    }
    be.run(&[cells.append(1, 0)]).unwrap();
    other.run(&[other_cells.append(1, 0)]).unwrap();
    cells.expect(values.into_iter().chain([1]));
    other_cells.expect(others.into_iter().chain([1]));
    rt_cells.expect((0..requests).map(|_| 2));
    if refused {
        return skip(&format!("{} can't park each client at level {level}", D::NAME));
    }
    happened("clients were parked", parks, cycles() / 20);
}
