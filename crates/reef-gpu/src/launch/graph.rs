//! Several launches that the driver takes at once.
//!
//! A graph is prepared for each best-effort queue that runs it, at its second run there: launches
//! that can be stopped have the addresses of the queue's preemptor and lists baked in. For all
//! real-time queues of a device it is prepared once, before its first run: that would be in a pass
//! of a dispatcher, for which everything else waits. For a part of the units another thread
//! prepares it, and until then it runs on all. Addresses never change, and only stopped
//! blocks write to lists, so running it again needs no preparation. Its epoch stands in a signal
//! that is written before the first run of each epoch.

use crate::driver::event::Event;
use crate::driver::handles::cloned;
use crate::driver::stream::Stream;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::launch::blit::{copy_launch, fill_launch};
use crate::launch::checkpoint::{Checkpoint, whole};
use crate::launch::guarded::{Epoch, Guarded, GuardedLaunch};
use crate::launch::noted::launch_noted;
use crate::launch::stop_lists::StopList;
use parking_lot::Mutex;
use reef_core::{Command, Error, Launch, Priority, Result};
use std::sync::{Arc, Weak};
use std::thread;

/// A sequence of launches, ready to run as often as wanted.
#[derive(Debug)]
pub struct Graph<V: Vendor>(Arc<Sequence<V>>);

cloned!(Graph);

#[derive(Debug)]
struct Sequence<V: Vendor> {
    launches: Vec<Launch<Gpu<V>>>,
    blocks: u32,
    /// Copies and fills, of whose buffers their launches know but the addresses.
    _buffers: Vec<Command<Gpu<V>>>,
    /// Prepared graphs of each queue that has run it and is still there; several, if it has several
    /// runs in flight.
    prepared: Mutex<Vec<Prepared<V>>>,
    /// Best-effort queues that have run it.
    ran_on: Mutex<Vec<Weak<()>>>,
    /// Classes and parts of the units, in percent, for which another thread prepares it, or has.
    in_background: Mutex<Vec<(Priority, u32)>>,
}

/// The queue that it is for, and what that runs.
type Prepared<V> = (Weak<()>, Arc<Exec<V>>);

/// The queue that runs a graph, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runner<'a> {
    /// Name of the queue, or of all that nothing stops.
    pub(crate) queue: &'a Arc<()>,
    pub(crate) class: Priority,
    /// Part of the units in percent.
    pub(crate) percent: u32,
}

impl Runner<'_> {
    /// Returns whether this was prepared for it.
    fn owns<V: Vendor>(&self, prepared: &Prepared<V>) -> bool {
        let (owner, exec) = prepared;
        owner.as_ptr() == Arc::as_ptr(self.queue) && exec.percent == self.percent
    }

    /// Opens a stream in which launches are captured for it.
    fn stream<V: Vendor>(&self, gpu: &Gpu<V>) -> Result<Stream<V>> {
        match self.percent {
            100.. => Stream::open(gpu.context(), self.class),
            percent => Stream::open_part(gpu.context(), self.class, percent),
        }
    }
}

/// Launches that run together, and the events that it sets when it begins and ends.
type Armed<V> = (Arc<Exec<V>>, [Event<V>; 2]);

impl<V: Vendor> Graph<V> {
    pub(crate) fn new(gpu: &Gpu<V>, commands: &[Command<Gpu<V>>]) -> Result<Self> {
        let mut launches: Vec<_> =
            commands.iter().map(|command| launch_of(gpu, command)).collect::<Result<_>>()?;
        launches.retain(|launch| launch.blocks() > 0);
        let blocks = launches.iter().try_fold(0u32, |sum, l| sum.checked_add(l.blocks()));
        let Some(blocks) = blocks.filter(|&blocks| blocks > 0) else {
            return Err(Error::invalid("graph", "must have from 1 to 2³² - 1 blocks"));
        };
        let has_buffers = |command: &&Command<_>| !matches!(command, Command::Launch(_));
        let _buffers = commands.iter().filter(has_buffers).cloned().collect();
        Ok(Self(Arc::new(Sequence {
            launches,
            blocks,
            _buffers,
            prepared: Mutex::default(),
            ran_on: Mutex::default(),
            in_background: Mutex::default(),
        })))
    }

    /// Its launches in order; none is empty.
    pub(crate) fn launches(&self) -> &[Launch<Gpu<V>>] {
        &self.0.launches
    }

    /// Blocks of all launches.
    pub(crate) fn blocks(&self) -> u32 {
        self.0.blocks
    }

    /// Blocks of the launch that has most.
    pub(crate) fn widest(&self) -> u32 {
        self.launches().iter().map(Launch::blocks).max().unwrap_or(0)
    }

    /// A record in which nothing has run.
    pub(crate) fn all(&self) -> Checkpoint<V> {
        let first = self.launches()[0].blocks();
        Checkpoint::of(self.blocks(), 0, whole(first), self.blocks() - first)
    }

    /// The graph for a queue that is never stopped.
    pub(crate) fn plain(&self, gpu: &Gpu<V>, runner: Runner<'_>) -> Result<Arc<Exec<V>>> {
        self.plain_exec(gpu, self.where_prepared(gpu, runner))
    }

    fn plain_exec(&self, gpu: &Gpu<V>, runner: Runner<'_>) -> Result<Arc<Exec<V>>> {
        let is_plain = |exec: &Arc<Exec<V>>| exec.times.is_none();
        self.prepared(runner, is_plain, || {
            let stream = runner.stream(gpu)?;
            Exec::capture(&stream, gpu, || launch_noted(&stream, gpu, self.launches(), [0; 2]))
        })
    }

    /// Prepares the graph so that it notes when it begins and ends, and returns the events that it
    /// sets then. `None` while a run of it is on its way.
    pub(crate) fn noting(&self, gpu: &Gpu<V>, runner: Runner<'_>) -> Result<Option<Armed<V>>> {
        let exec = self.noting_exec(gpu, self.where_prepared(gpu, runner))?;
        let _one_at_a_time = self.0.prepared.lock();
        let times = if exec.is_running() { None } else { exec.arm() };
        Ok(times.map(|times| (exec, times)))
    }

    /// Makes what queues run that nothing stops.
    pub(crate) fn prepare(&self, gpu: &Gpu<V>, runner: Runner<'_>) -> Result<()> {
        self.noting_exec(gpu, runner)?;
        self.plain_exec(gpu, runner)?; // for a run that follows another closely
        Ok(())
    }

    /// The queue on its part of the units if the graph is prepared for that, else on all: then
    /// another thread begins to prepare it.
    fn where_prepared<'a>(&self, gpu: &Gpu<V>, runner: Runner<'a>) -> Runner<'a> {
        let count = || self.0.prepared.lock().iter().filter(|it| runner.owns(it)).count();
        // One that notes its times, and one that doesn't.
        if runner.percent >= 100 || count() >= 2 {
            return runner;
        }
        self.prepare_in_background(gpu, runner);
        Runner { percent: 100, ..runner }
    }

    /// Prepares it on another thread, once. If that fails it runs on all units for good.
    fn prepare_in_background(&self, gpu: &Gpu<V>, runner: Runner<'_>) {
        let Runner { class, percent, .. } = runner;
        let mut in_background = self.0.in_background.lock();
        if in_background.contains(&(class, percent)) {
            return;
        }
        in_background.push((class, percent));
        let (graph, gpu, queue) = (self.clone(), gpu.clone(), runner.queue.clone());
        let prepare = move || {
            let _ = graph.prepare(&gpu, Runner { queue: &queue, class, percent });
        };
        let _ = thread::Builder::new().name("reef-prepare".into()).spawn(prepare);
    }

    fn noting_exec(&self, gpu: &Gpu<V>, runner: Runner<'_>) -> Result<Arc<Exec<V>>> {
        let notes = |exec: &Arc<Exec<V>>| exec.times.is_some();
        self.prepared(runner, notes, || {
            let stream = runner.stream(gpu)?;
            let event = || Event::new(gpu.context(), &gpu.0.clock);
            let times = [event()?, event()?];
            let words = times.each_ref().map(Event::arm);
            let mut exec =
                Exec::capture(&stream, gpu, || launch_noted(&stream, gpu, self.launches(), words))?;
            exec.times = Some(times);
            Ok(exec)
        })
    }

    /// The graph for a queue that can be stopped.
    pub(crate) fn guarded(
        &self,
        gpu: &Gpu<V>,
        runner: Runner<'_>,
        guarded: &mut Guarded<V>,
        epoch: Epoch,
    ) -> Result<Arc<Exec<V>>> {
        // Launches in flight hold it.
        let is_free = |exec: &Arc<Exec<V>>| Arc::strong_count(exec) == 1;
        self.prepared(runner, is_free, || {
            let stream = runner.stream(gpu)?;
            let stop_list = guarded.stop_list(self.blocks())?;
            let mut exec = Exec::capture(&stream, gpu, || {
                self.launches().iter().enumerate().try_for_each(|(at, launch)| {
                    let (width, start) = (launch.blocks(), gpu.start_of(at));
                    let (segment, stop_list) = (&whole(width), &stop_list);
                    let launch = GuardedLaunch { launch, segment, stop_list, width, start, epoch };
                    guarded.launch(&stream, &launch)
                })
            })?;
            exec.stop_list = Some(stop_list);
            Ok(exec)
        })
    }

    /// Notes that a best-effort queue runs it: whether it has done so before.
    ///
    /// At its first run it launches one kernel after the other: preparing takes locks of the
    /// driver, for which real-time work would wait, and a client that came for one inference would
    /// have nothing of it.
    pub(crate) fn runs_again_on(&self, queue: &Arc<()>) -> bool {
        let mut ran_on = self.0.ran_on.lock();
        if ran_on.iter().any(|owner| owner.as_ptr() == Arc::as_ptr(queue)) {
            return true;
        }
        ran_on.retain(|owner| owner.strong_count() > 0);
        ran_on.push(Arc::downgrade(queue));
        false
    }

    /// One that the queue has run before on these units and that `may_run` now, or a new one.
    fn prepared(
        &self,
        runner: Runner<'_>,
        may_run: impl Fn(&Arc<Exec<V>>) -> bool,
        make: impl FnOnce() -> Result<Exec<V>>,
    ) -> Result<Arc<Exec<V>>> {
        let is_it = |it: &&Prepared<V>| runner.owns(it) && may_run(&it.1);
        let found = self.0.prepared.lock().iter().find(is_it).map(|(_, exec)| exec.clone());
        if let Some(exec) = found {
            return Ok(exec);
        }
        // Without the lock: this takes the driver milliseconds, and another queue may want to run
        // meanwhile.
        let mut exec = make()?;
        exec.percent = runner.percent;
        let exec = Arc::new(exec);
        drop(self.add(runner.queue, exec.clone()));
        Ok(exec)
    }

    /// Keeps `exec` for `queue`. Gives those of queues that are gone, to be freed without the lock.
    fn add(&self, queue: &Arc<()>, exec: Arc<Exec<V>>) -> Vec<Prepared<V>> {
        let mut prepared = self.0.prepared.lock();
        let is_gone = |(owner, _): &mut Prepared<V>| owner.strong_count() == 0;
        let gone = prepared.extract_if(.., is_gone).collect();
        prepared.push((Arc::downgrade(queue), exec));
        gone
    }
}

/// The launch that does the same.
fn launch_of<V: Vendor>(gpu: &Gpu<V>, command: &Command<Gpu<V>>) -> Result<Launch<Gpu<V>>> {
    match command {
        Command::Launch(launch) => Ok(launch.clone()),
        Command::Copy(copy) => copy_launch(gpu, copy),
        Command::Fill(fill) => fill_launch(gpu, fill),
        other => Err(Error::invalid("command", format!("cannot be in a graph, got {other:?}"))),
    }
}

/// A graph as the driver runs it.
#[derive(Debug)]
pub(crate) struct Exec<V: Vendor> {
    raw: V::Exec,
    /// Stop list of all launches, if they can be stopped.
    stop_list: Option<Arc<StopList<V>>>,
    /// Events that it sets when it begins and ends, if it notes that. Others have them while a run
    /// is on its way.
    times: Option<[Event<V>; 2]>,
    /// Part of the units that it runs on, in percent.
    percent: u32,
    gpu: Gpu<V>,
}

impl<V: Vendor> Exec<V> {
    /// Turns what `fill` launches on `stream` into a graph.
    fn capture(
        stream: &Stream<V>,
        gpu: &Gpu<V>,
        fill: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        // SAFETY: `stream` was opened for this capture alone.
        unsafe { gpu.context().call().begin_capture(stream.raw()) }?;
        let filled = fill();
        // SAFETY: it has begun above. In any case, or the stream would stay in the capture.
        let raw = unsafe { gpu.context().call().end_capture(stream.raw()) }?;
        let (stop_list, times) = (None, None);
        let made = Self { raw, stop_list, times, percent: 100, gpu: gpu.clone() };
        filled.map(|()| made)
    }

    /// List in which its launches note the blocks that were stopped, if they can be.
    pub(crate) fn stop_list(&self) -> Option<&Arc<StopList<V>>> {
        self.stop_list.as_ref()
    }

    /// Returns whether the end of a run is still watched for.
    fn is_running(&self) -> bool {
        self.times.as_ref().is_some_and(|[_, end]| end.is_shared())
    }

    /// Events that the next run will set.
    fn arm(&self) -> Option<[Event<V>; 2]> {
        let times = self.times.clone()?;
        for event in &times {
            event.arm();
        }
        Some(times)
    }

    pub(crate) fn launch(&self, stream: &Stream<V>) -> Result<()> {
        let context = self.gpu.context();
        // SAFETY: what the launches refer to is kept by the graph, and by the queue until it has
        // ended.
        unsafe { context.call().launch_exec(self.raw, stream.raw()) }
    }
}

impl<V: Vendor> Drop for Exec<V> {
    fn drop(&mut self) {
        if let Some(call) = self.gpu.context().call_that_waits() {
            // SAFETY: captured once; queues keep this until its last run has ended.
            unsafe { call.free_exec(self.raw) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::fake::Fake;
    use crate::hal::options::Options;
    use crate::hal::streams::StreamKind;
    use reef_core::{Device, Fill, PreemptLevel, Preemptor as _, Queue as _, Seq};
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    #[test]
    fn buffers_of_copies_and_fills_live_as_long_as_the_graph() {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let [first, second] = [8, 16].map(|bytes| gpu.alloc(bytes).unwrap());
        let addresses = [first.address(), second.address()];
        let copy = reef_core::Copy {
            from: first,
            from_offset: 0,
            to: second.clone(),
            to_offset: 8,
            bytes: 8,
            to_host: false,
        };
        let fill = Fill { buffer: second, offset: 0, bytes: 8, word: 7 };
        let commands = [Command::Copy(copy), Command::Fill(fill)];
        let graph = Graph::new(&gpu, &commands).unwrap();
        drop(commands);
        let freed = || addresses.map(|address| gpu.vendor().freed.lock().contains(&address));
        assert_eq!(freed(), [false; 2]);
        drop(graph);
        assert_eq!(freed(), [true; 2]);
    }
    /// Launches `graph` on another queue than the one that captures it just now: whether that
    /// ended.
    fn launches_elsewhere(gpu: &Gpu<Fake>, graph: &Graph<Fake>) -> bool {
        let (done, is_done) = mpsc::channel();
        let (gpu, graph) = (gpu.clone(), graph.clone());
        thread::spawn(move || {
            let mut queue = gpu.queue(Priority::RealTime, None).unwrap();
            queue.launch_graph(Seq(0), &graph, None).unwrap();
            done.send(()).unwrap();
        });
        is_done.recv_timeout(Duration::from_secs(60)).is_ok()
    }

    #[test]
    fn graph_that_was_prepared_is_captured_in_no_run() {
        let gpu = Gpu::new(Fake::with_graphs(), Options::default()).unwrap();
        let fill = Fill { buffer: gpu.alloc(8).unwrap(), offset: 0, bytes: 8, word: 7 };
        let graph = Command::Graph(Graph::new(&gpu, &[Command::Fill(fill)]).unwrap());
        let Command::Graph(runs) = &graph else { unreachable!("made as one") };
        let calls = || gpu.vendor().slow_calls.load(std::sync::atomic::Ordering::Relaxed);
        gpu.prepare(&graph, Priority::RealTime).unwrap();
        let before = calls();
        gpu.prepare(&graph, Priority::RealTime).unwrap();
        assert_eq!(calls(), before, "once");
        let times = [gpu.event().unwrap(), gpu.event().unwrap()];
        for _ in 0..2 {
            let mut queue = gpu.queue(Priority::RealTime, None).unwrap();
            let before = calls();
            assert!(queue.launch_between(Seq(0), &graph, times.each_ref().map(Some)).unwrap());
            queue.launch_graph(Seq(1), runs, None).unwrap();
            assert_eq!(calls(), before);
            while queue.completed().unwrap() < Seq(2) {}
        }
    }

    #[test]
    fn graph_is_captured_once_for_each_part_of_the_units() {
        let gpu = Gpu::new(Fake::with_parts(), Options::default()).unwrap();
        let fill = Fill { buffer: gpu.alloc(8).unwrap(), offset: 0, bytes: 8, word: 7 };
        let graph = Graph::new(&gpu, &[Command::Fill(fill)]).unwrap();
        gpu.prepare(&Command::Graph(graph.clone()), Priority::RealTime).unwrap();
        let mut queue = gpu.queue(Priority::RealTime, None).unwrap();
        let mut seqs = (0..).map(Seq);
        let mut launched_on = |percent| {
            queue.run_on(percent);
            queue.launch_graph(seqs.next().unwrap(), &graph, None).unwrap();
            graph.where_prepared(&gpu, queue.runner()).percent
        };
        for percent in [85, 100, 40, 85] {
            // Launches don't wait for another thread that prepares it.
            let start = Instant::now();
            while launched_on(percent) != percent {
                assert!(start.elapsed() < Duration::from_secs(60), "{percent} % in a minute");
            }
        }
        let mut parts = gpu.vendor().parts.lock().clone();
        parts.dedup(); // one that notes its times, and one that doesn't
        assert_eq!(parts, [(StreamKind::RealTime, 85), (StreamKind::RealTime, 40)]);
    }

    #[test]
    fn best_effort_graph_runs_on_a_part_and_stops_there() {
        let gpu = Gpu::new(Fake::with_parts(), Options::default()).unwrap();
        let fill = Fill { buffer: gpu.alloc(8).unwrap(), offset: 0, bytes: 8, word: 7 };
        let graph = Graph::new(&gpu, &[Command::Fill(fill)]).unwrap();
        let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
        let mut queue = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
        queue.run_on(40);
        for seq in 0..3 {
            queue.launch_graph(Seq(seq), &graph, None).unwrap();
        }
        let parts = || gpu.vendor().parts.lock().clone();
        assert!(parts().iter().all(|part| *part == (StreamKind::BestEffort, 40)));
        assert!(!parts().is_empty(), "from its second run on it is a graph");
        preemptor.evict().unwrap();
        while queue.try_drain().unwrap().is_none() {}
    }

    #[test]
    fn options_for_best_effort_blocks_leave_graphs_on_all_units() {
        for option in ["colocated_blocks=16", "gates=4"] {
            let options = Options::parse("fake", option).unwrap();
            assert!(!Gpu::new(Fake::with_parts(), options).unwrap().has_parts(), "{option}");
        }
        assert!(!Gpu::new(Fake::with_graphs(), Options::default()).unwrap().has_parts());
    }

    #[test]
    fn a_queue_runs_a_graph_while_another_queue_has_it_captured() {
        let gpu = Gpu::new(Fake::with_graphs(), Options::default()).unwrap();
        let fill = Fill { buffer: gpu.alloc(8).unwrap(), offset: 0, bytes: 8, word: 7 };
        let graph = Graph::new(&gpu, &[Command::Fill(fill)]).unwrap();
        let (went_on, did_it) = mpsc::channel();
        let others = (gpu.clone(), graph.clone());
        gpu.vendor().at_next_capture(move || {
            went_on.send(launches_elsewhere(&others.0, &others.1)).unwrap();
        });
        let mut queue = gpu.queue(Priority::RealTime, None).unwrap();
        queue.launch_graph(Seq(0), &graph, None).unwrap();
        assert_eq!(did_it.try_recv(), Ok(true), "it waited for the other queue's capture");
    }
}
