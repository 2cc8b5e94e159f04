//! Several commands that the device takes at once.

use crate::run::skip;
use crate::subject::{
    Cells, Effects, Rounds, appended, cycles, doze, happened, holds_evicted, read, rng, rounds_for,
};
use rand::RngExt;
use reef_core::scheduler::Reef;
use reef_core::{
    ClientConfig, Command, Config, Copy, Device, Dispatcher, Error, Fill, PreemptLevel, Task,
    VirtualQueue,
};
use std::time::Duration;

/// Returns the graph, or `None` with a message if the device has none.
fn graph<D: Device>(device: &D, commands: &[Command<D>]) -> Option<Command<D>> {
    match device.graph(commands) {
        Ok(graph) => Some(Command::Graph(graph)),
        Err(Error::Unsupported { .. }) => {
            skip(&format!("{} has no graphs", D::NAME));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A copy of the first cell to the second buffer.
fn copy<D: Device>(cells: &Cells<D>, to: &D::Buffer) -> Command<D> {
    Command::Copy(Copy {
        from: cells.buffer().clone(),
        from_offset: 0,
        to: to.clone(),
        to_offset: 0,
        bytes: 8,
        to_host: false,
    })
}

/// A graph that is preempted anywhere inside, again and again, has the effect of an undisturbed
/// one.
pub fn a_graph_is_preempted_inside<D: Device>(device: &D, level: PreemptLevel) {
    let mut rng = rng();
    let (mut times, wanted) = (0, cycles() / 20);
    let mut rounds = Rounds::new(cycles().div_ceil(100));
    while rounds.next(times, wanted) {
        let mut effects = Effects::new(device, level);
        let cells = Cells::new(device, rng.random_range(1..12));
        let copied = device.alloc(8).unwrap();
        let values: Vec<u64> = (0..rng.random_range(2..12)).collect();
        let mut commands: Vec<_> =
            values.iter().map(|&value| cells.append(value, rng.random_range(0..40))).collect();
        commands.push(copy(&cells, &copied));
        let Some(graph) = graph(device, &commands) else { return };
        let config = Config::default().level(level).window(rng.random_range(1..4));
        let (mut submitter, queue) = VirtualQueue::enable(device, config).unwrap();
        let mut all = Vec::new();
        for _ in 0..100 {
            submitter.submit_blocking(graph.clone()).unwrap();
            all.extend(&values);
            if rng.random_ratio(1, 3) {
                submitter.submit_blocking(cells.append(77, rng.random_range(0..20))).unwrap();
                all.push(77);
            }
            doze(&mut rng, 300);
            queue.preempt(rng.random()).unwrap();
            effects.observe(&submitter);
            doze(&mut rng, 30);
            queue.restore().unwrap();
        }
        submitter.submit_blocking(graph).unwrap();
        all.extend(&values);
        times += effects.times(queue.rerun());
        queue.finish().unwrap();
        cells.expect(all.iter().copied());
        assert_eq!(read(device, &copied, 1), [appended(all)]);
    }
    happened(Effects::new(device, level).name(), times, wanted);
}

/// Time that each kernel takes of a graph that is stopped midway.
const NODE: Duration = Duration::from_millis(16);
/// Graphs that must have been stopped so.
const STOPPED: u64 = 3;

/// A graph doesn't run to its end once it has begun: of one whose first kernel has run, the last
/// hasn't.
pub fn a_graph_stops_midway<D: Device>(device: &D, level: PreemptLevel) {
    if level == PreemptLevel::HostQueue || holds_evicted(device, level) {
        return skip(&format!("{} stops no graph midway at level {level}", D::NAME));
    }
    let (cells, spin) = (Cells::new(device, 1), rounds_for(device, NODE));
    let nodes: Vec<_> = (1..=4).map(|value| cells.append(value, spin)).collect();
    let Some(graph) = graph(device, &nodes) else { return };
    let (mut submitter, queue) =
        VirtualQueue::enable(device, Config::default().level(level)).unwrap();
    // A device may prepare a graph when it runs again.
    for _ in 0..2 {
        let seq = submitter.submit_blocking(graph.clone()).unwrap();
        submitter.wait(seq).unwrap();
    }
    let (mut runs, mut stopped, mut rounds) = (2, 0, Rounds::new(STOPPED));
    while rounds.next(stopped, STOPPED) {
        let before = cells.read();
        let seq = submitter.submit_blocking(graph.clone()).unwrap();
        // Graphs that end before their first kernel is seen do not count.
        while cells.read() == before && submitter.completed() <= seq {
            // sleep: poll of a condition
            std::thread::sleep(NODE / 16);
        }
        queue.preempt(true).unwrap();
        stopped += u64::from(submitter.completed() <= seq);
        queue.restore().unwrap();
        submitter.wait(seq).unwrap();
        runs += 1;
    }
    queue.finish().unwrap();
    cells.expect((0..runs).flat_map(|_| 1..=4));
    happened("graphs were stopped midway", stopped, STOPPED);
}

/// Real-time graphs during best-effort graphs, each of which may run on several queues.
pub fn clients_run_graphs<D: Device>(device: &D, level: PreemptLevel) {
    let mut rng = rng();
    let rt_cells = Cells::new(device, 4);
    let be_cells = Cells::new(device, 30);
    let commands = |cells: &Cells<D>, rounds| {
        (0..5).map(|value| cells.append(value, rounds)).collect::<Vec<_>>()
    };
    let Some(rt) = graph(device, &commands(&rt_cells, 5)) else { return };
    let Some(be) = graph(device, &commands(&be_cells, 30)) else { return };
    let dispatcher = Dispatcher::start(device, Reef::default().level(level)).unwrap();
    let mut best_effort = dispatcher.best_effort(ClientConfig::default()).unwrap();
    let mut real_time = dispatcher.real_time().unwrap();
    let task = Task::new([rt]).unwrap();
    let wanted = cycles() / 40;
    let (mut rounds, mut turns) = (Rounds::new(cycles() / 10), 0);
    while rounds.next(dispatcher.stats().preemptions, wanted) {
        best_effort.submit(std::slice::from_ref(&be)).unwrap();
        doze(&mut rng, 200);
        real_time.run(&task).unwrap();
        turns += 1;
    }
    best_effort.run(&[be]).unwrap();
    rt_cells.expect((0..turns).flat_map(|_| 0..5));
    be_cells.expect((0..=turns).flat_map(|_| 0..5));
    happened("preemptions", dispatcher.stats().preemptions, wanted);
}

/// Commands that can't be in a graph are refused when it is made.
pub fn a_graph_holds_launches_copies_and_fills<D: Device>(device: &D, level: PreemptLevel) {
    let cells = Cells::new(device, 4);
    let fill = Fill { buffer: cells.buffer().clone(), offset: 0, bytes: 32, word: 0 };
    let commands = [
        Command::Fill(fill),
        cells.append(9, 0),
        Command::Launch(Cells::new(device, 0).launch(1, 0)),
    ];
    let Some(good) = graph(device, &commands) else { return };
    let event = Command::Record(device.event().unwrap());
    let bad = device.graph(&[cells.append(1, 0), event]);
    assert!(matches!(bad, Err(Error::Invalid(_))), "an event in a graph");
    assert!(matches!(device.graph(&[]), Err(Error::Invalid(_))), "a graph of nothing");
    let config = Config::default().level(level);
    let (mut submitter, queue) = VirtualQueue::enable(device, config).unwrap();
    for _ in 0..3 {
        submitter.submit_blocking(good.clone()).unwrap();
    }
    queue.finish().unwrap();
    cells.expect([9]);
}
