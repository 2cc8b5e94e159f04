//! A stream, which a preemptor can stop.
//!
//! A queue that can be stopped launches the guarded build of kernels. While it is evicted, the
//! stream's timeline is worth nothing, because void launches end as well; then a report of the device tells
//! which blocks have stopped.

use crate::driver::event::Event;
use crate::driver::signal::DeviceSignal;
use crate::driver::stream::Stream;
use crate::driver::timeout::Timeout;
use crate::gpu::Gpu;
use crate::launch::aside::Aside;
use crate::launch::checkpoint::{Checkpoint, Segment, whole};
use crate::launch::gated::Gated;
use crate::launch::graph::Graph;
use crate::launch::guarded::{Epoch, Guarded};
use crate::launch::in_flight::{InFlight, Remainder, Source};
use crate::launch::retained::Retained;
use crate::launch::timeline::Timeline;
use crate::preempt::preemptor::Preemptor;
use crate::vendor::calls::Vendor;
use reef_core::{Drained, Error, Launch, PreemptLevel, Preemptor as _, Priority, Result, Seq};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Most launches that one launch becomes on a capped queue whose kernel's blocks don't take turns; larger grids run
/// wider.
const MAX_PARTS: u32 = 16;
/// Longest that a batch runs behind a closed gate before the driver is asked whether the device is there.
const MAX_SILENCE: Duration = Duration::from_secs(5);

/// A hardware queue.
#[derive(Debug)]
pub struct Queue<V: Vendor> {
    pub(crate) gpu: Gpu<V>,
    pub(crate) stream: Stream<V>,
    /// Its other stream, in which nothing is: `stream` is on few units while launches are capped, this one otherwise.
    pub(crate) aside: Option<Aside<V>>,
    pub(crate) preemptor: Preemptor<V>,
    /// Its launches go through a gate, because kernels have no guards.
    pub(crate) gated: Option<Gated<V>>,
    pub(crate) timeline: Timeline<V>,
    pub(crate) guarded: Guarded<V>,
    /// Guarded launches that have not ended, in order.
    pub(crate) in_flight: VecDeque<InFlight<V>>,
    /// What the commands that have not ended touch.
    pub(crate) retained: Retained<V>,
    /// The epoch that the report on its way is about.
    pub(crate) draining: Option<u32>,
    pub(crate) timeout: Timeout,
    pub(crate) priority: Priority,
    /// Most blocks at a time.
    pub(crate) block_cap: Option<u32>,
    /// Holds the epoch of graphs, and which one was written last.
    pub(crate) epoch_signal: Option<DeviceSignal<V>>,
    pub(crate) epoch_written: Option<u32>,
    /// Dropped with the queue, so that graphs know.
    pub(crate) token: Arc<()>,
    /// The newest event that was recorded: its time is news when it is reached.
    pub(crate) newest_event: Option<Event<V>>,
}

impl<V: Vendor> Queue<V> {
    /// Whether it launches guarded kernels.
    pub(super) fn is_stoppable(&self) -> bool {
        self.preemptor.level() >= PreemptLevel::DeviceQueue && self.gated.is_none()
    }

    /// Whether blocks that have started look whether they shall stop.
    fn running_blocks_stop(&self) -> bool {
        self.preemptor.level() >= PreemptLevel::All
    }

    /// Whether what the device says of the ends of launches is worth nothing.
    pub(super) fn is_void(&self) -> bool {
        self.gated.is_none() && self.preemptor.is_evicted()
    }

    /// Whether a gate has been closed so short a time that the driver must not be asked: it may hang in a
    /// call that waits for the gate.
    pub(super) fn is_behind_gate(&self) -> bool {
        let closed = self.gated.as_ref().and_then(Gated::closed_for);
        closed.is_some_and(|time| time < MAX_SILENCE)
    }

    /// Launches what is never stopped midway, behind the gate if there is one.
    pub(super) fn launch_open(
        &mut self,
        seq: Seq,
        launch: impl FnOnce(&Stream<V>) -> Result<()>,
    ) -> Result<()> {
        let stream = &self.stream;
        match &mut self.gated {
            None => launch(stream),
            Some(gated) => gated.launch(stream, &mut self.timeline, seq.0 + 1, || launch(stream)),
        }
    }

    /// Goes to the stream that the next command belongs into.
    ///
    /// # Errors
    ///
    /// `State` if a report is on its way: it says nothing of what is launched behind it, which would be lost.
    pub(super) fn begin_command(&mut self) -> Result<()> {
        if self.draining.is_some() {
            return Err(Error::State("a launch on an evicted queue that is being drained"));
        }
        if let Some(aside) = &mut self.aside {
            aside.choose(self.block_cap.is_some(), &mut self.stream, &self.timeline);
        }
        Ok(())
    }

    /// A command has been launched that must not be held back; it runs alone.
    pub(super) fn launched_free(&mut self, seq: Seq) {
        if let Some(gated) = &mut self.gated {
            gated.launch_free(seq.0 + 1);
        }
    }

    /// Nothing has ended; the queue is given up if that has been so for too long.
    pub(super) fn check_timeout(&mut self) -> Result<()> {
        let Some(time) = self.timeout.expired() else { return Ok(()) };
        self.stream.give_up();
        let why = format!("nothing in a queue has ended for {time:?}; it is given up");
        Err(Error::DeviceLost { backend: V::NAME, why })
    }

    pub(super) fn epoch(&self) -> Epoch {
        Epoch {
            live: self.preemptor.live(),
            value: self.preemptor.epoch(),
            word: 0,
            may_stop: self.running_blocks_stop(),
        }
    }

    /// Launches some blocks of a kernel, which is launch `node` of a command of `total` blocks. On a capped queue
    /// they take turns, or are launched a few at a time.
    pub(super) fn launch_segment(
        &mut self,
        (seq, node, total): (Seq, usize, u32),
        launch: &Launch<Gpu<V>>,
        segment: &Segment<V>,
        checkpoint: Option<&Checkpoint<V>>,
    ) -> Result<()> {
        let seq = seq.0;
        let takes_turns = launch.kernel().turns().is_some();
        let cap = self.block_cap.unwrap_or(u32::MAX);
        let most = if takes_turns { u32::MAX } else { cap.max(segment.count.div_ceil(MAX_PARTS)) };
        for part in segment.parts(most) {
            let width = if takes_turns { part.count.min(cap) } else { part.count };
            let epoch = self.epoch();
            let stop_list = self.guarded.launch(&self.stream, launch, &part, width, epoch);
            let stop_list = stop_list.inspect_err(|_| {
                let _ = self.stream.wait(); // earlier parts may run, and have no entry in `in_flight`
            })?;
            let (blocks, checkpoint) = (part.count, checkpoint.cloned());
            let source = Source::Segment(part);
            self.in_flight.push_back(InFlight {
                seq,
                node,
                total,
                blocks,
                stop_list,
                source,
                checkpoint,
            });
        }
        Ok(())
    }

    /// Launches all blocks of a kernel so that they can be stopped.
    pub(super) fn launch_whole(&mut self, seq: Seq, launch: &Launch<Gpu<V>>) -> Result<()> {
        let total = launch.blocks();
        self.launch_segment((seq, 0, total), launch, &whole(total), None)
    }

    /// Launches what is left of a kernel, which is launch `node` of a command of `total` blocks.
    pub(super) fn launch_rest(
        &mut self,
        at: (Seq, usize, u32),
        launch: &Launch<Gpu<V>>,
        checkpoint: &Checkpoint<V>,
    ) -> Result<()> {
        for segment in checkpoint.segments() {
            self.launch_segment(at, launch, segment, Some(checkpoint))?;
        }
        Ok(())
    }

    /// Forgets guarded launches that have ended without being stopped.
    pub(super) fn retire(&mut self) {
        let done = self.timeline.done();
        while let Some(ended) = self.in_flight.pop_front_if(|launch| launch.seq < done) {
            ended.retire();
            self.give_back(ended);
        }
        self.retained.retire(done);
    }

    pub(super) fn give_back(&mut self, launch: InFlight<V>) {
        if matches!(launch.source, Source::Segment(_)) {
            self.guarded.give_back(launch.stop_list);
        }
    }

    /// What became of everything that was in flight, now that the device has reported.
    pub(super) fn reap(&mut self) -> Result<Drained<Gpu<V>>> {
        let mut remainder: Option<Remainder<V>> = None;
        for launch in std::mem::take(&mut self.in_flight) {
            let count = self.guarded.stopped(&launch.stop_list)?;
            launch.retire();
            match &mut remainder {
                None if count == 0 => {}
                None => remainder = Some(Remainder::new(&launch, count)),
                Some(remainder) => remainder.add(&launch, count)?,
            }
            self.give_back(launch);
        }
        self.retained.clear();
        let next = remainder.as_ref().map_or(self.timeline.launched(), |remainder| remainder.seq);
        self.timeline.rewind(next);
        Ok(Drained {
            resume_at: Seq(next),
            partial: remainder.and_then(|remainder| remainder.partial(self.running_blocks_stop())),
            held: false,
        })
    }
}

impl<V: Vendor> Queue<V> {
    /// Each launch of a guarded graph reads the epoch from a word, which is set in front where it isn't the
    /// one that was set there before: graphs of earlier epochs are ahead in the stream, and void.
    pub(super) fn launch_guarded_graph(&mut self, seq: Seq, graph: &Graph<V>) -> Result<()> {
        let word = match &self.epoch_signal {
            Some(word) => word.address(),
            None => self.epoch_signal.insert(DeviceSignal::new(self.gpu.control())?).address(),
        };
        let epoch = Epoch { word, ..self.epoch() };
        let exec =
            graph.guarded(&self.gpu, &self.token, self.priority, &mut self.guarded, epoch)?;
        if self.epoch_written != Some(epoch.value) {
            self.gpu.writer().write(&self.stream, word, epoch.value)?;
            self.epoch_written = Some(epoch.value);
        }
        exec.launch(&self.stream)?;
        for (node, (launch, stop_list)) in
            graph.launches().iter().zip(exec.stop_lists()).enumerate()
        {
            self.in_flight.push_back(InFlight {
                seq: seq.0,
                node,
                total: graph.blocks(),
                blocks: launch.blocks(),
                stop_list: stop_list.clone(),
                source: Source::Graph(exec.clone()),
                checkpoint: None,
            });
        }
        Ok(())
    }

    /// What remains of a graph is launched one by one.
    pub(super) fn resume_graph(
        &mut self,
        seq: Seq,
        graph: &Graph<V>,
        checkpoint: &Checkpoint<V>,
    ) -> Result<()> {
        let total = graph.blocks();
        check_total(checkpoint, total)?;
        let first = checkpoint.node();
        for (node, launch) in graph.launches().iter().enumerate().skip(first) {
            let at = (seq, node, total);
            if node == first {
                self.launch_rest(at, launch, checkpoint)?;
            } else {
                self.launch_segment(at, launch, &whole(launch.blocks()), None)?;
            }
        }
        Ok(())
    }

    /// Tells the clock when the newest event was seen.
    pub(super) fn observe_event(&mut self) {
        if let Some(stamp) = self.newest_event.as_ref().and_then(Event::stamp) {
            self.gpu.clock().observe(stamp);
            self.newest_event = None;
        }
    }
}

/// A block outside its kernel's grid must never run.
pub(super) fn check_total<V: Vendor>(checkpoint: &Checkpoint<V>, want: u32) -> Result<()> {
    let have = checkpoint.total();
    if have == want {
        return Ok(());
    }
    let text = format!("{}: a checkpoint of {have} blocks for a launch of {want}", V::NAME);
    Err(Error::Invalid(text))
}

#[cfg(test)]
mod tests {
    use crate::gpu::Gpu;
    use crate::launch::queue::Queue;
    use crate::preempt::preemptor::Preemptor;
    use crate::vendor::fake::{Fake, Put};
    use crate::vendor::options::Options;
    use reef_core::{
        Args, Command, Device, Drained, Error, Launch, PreemptLevel, Preemptor as _, Priority,
        Queue as _, Seq,
    };

    /// A device on which no block ends before an eviction, and a queue at this level.
    fn hurried(level: PreemptLevel) -> (Gpu<Fake>, Preemptor<Fake>, Queue<Fake>) {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let preemptor = gpu.preemptor(level).unwrap();
        let queue = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
        gpu.vendor().hurry();
        (gpu, preemptor, queue)
    }

    fn launch_of(gpu: &Gpu<Fake>, blocks: u32) -> Launch<Gpu<Fake>> {
        let kernel = gpu.kernel("append").unwrap();
        // SAFETY: the fake's blocks compute nothing.
        unsafe { Launch::new(kernel, [blocks, 1, 1], [32, 1, 1], Args::new(&[0; 3])) }
    }

    /// Evicts the queue, drains it, and lets it go on.
    fn preempt(preemptor: &Preemptor<Fake>, queue: &mut Queue<Fake>) -> Drained<Gpu<Fake>> {
        preemptor.evict().unwrap();
        let drained = queue.try_drain().unwrap().expect("the fake reports at once");
        preemptor.reactivate().unwrap();
        drained
    }

    /// Launches what `launch` does and preempts it until it has completed: how often that was.
    fn preemptions_until_done(
        preemptor: &Preemptor<Fake>,
        queue: &mut Queue<Fake>,
        launch: impl Fn(&mut Queue<Fake>, Option<&crate::Checkpoint<Fake>>),
    ) -> u32 {
        let mut partial = None;
        for preemptions in 0..10 {
            launch(queue, partial.as_ref());
            let drained = preempt(preemptor, queue);
            if drained.resume_at == Seq(1) {
                return preemptions;
            }
            partial = drained.partial;
        }
        panic!("it was preempted again and again and never ended");
    }

    fn sorted(gpu: &Gpu<Fake>) -> Vec<u32> {
        let mut ran = gpu.vendor().ran.lock().clone();
        ran.sort_unstable();
        ran
    }

    #[test]
    fn a_kernel_of_one_wave_is_stopped_twice_and_then_runs_through() {
        let (gpu, preemptor, mut queue) = hurried(PreemptLevel::All);
        let launch = launch_of(&gpu, 4);
        let count = preemptions_until_done(&preemptor, &mut queue, |queue, partial| {
            queue.launch(Seq(0), &launch, partial).unwrap();
        });
        assert_eq!((count, sorted(&gpu)), (2, vec![0, 1, 2, 3]));
    }

    #[test]
    fn kernels_of_a_graph_are_each_stopped_twice_and_then_run_through() {
        let (gpu, preemptor, mut queue) = hurried(PreemptLevel::All);
        let commands = [3, 2].map(|blocks| Command::Launch(launch_of(&gpu, blocks)));
        let graph = crate::Graph::new(&gpu, &commands).unwrap();
        let count = preemptions_until_done(&preemptor, &mut queue, |queue, partial| {
            let partial = partial.cloned().unwrap_or_else(|| graph.all()); // the fake captures nothing
            queue.launch_graph(Seq(0), &graph, Some(&partial)).unwrap();
        });
        assert_eq!((count, sorted(&gpu)), (4, vec![0, 0, 1, 1, 2]));
    }

    #[test]
    fn a_kernel_whose_running_blocks_do_not_stop_is_launched_anew() {
        let (gpu, preemptor, mut queue) = hurried(PreemptLevel::DeviceQueue);
        preemptor.evict().unwrap();
        queue.launch(Seq(0), &launch_of(&gpu, 4), None).unwrap();
        let drained = preempt(&preemptor, &mut queue);
        assert_eq!(drained.resume_at, Seq(0));
        assert!(drained.partial.is_none(), "there are no stops to keep");
        assert_eq!(sorted(&gpu), []);
    }

    #[test]
    fn nothing_is_launched_behind_a_report_that_has_not_been_read() {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
        let mut queue = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
        gpu.vendor().slow_down();
        let launch = launch_of(&gpu, 4);
        queue.launch(Seq(0), &launch, None).unwrap();
        preemptor.evict().unwrap();
        queue.launch(Seq(1), &launch, None).unwrap(); // the queue isn't held yet
        assert!(queue.try_drain().unwrap().is_none());
        let refused = queue.launch(Seq(2), &launch, None).unwrap_err();
        assert!(matches!(refused, Error::State(_)), "{refused}");
        while queue.try_drain().unwrap().is_none() {
            gpu.vendor().proceed(1);
        }
        preemptor.reactivate().unwrap();
        queue.launch(Seq(2), &launch, None).unwrap();
    }

    fn grids(gpu: &Gpu<Fake>) -> Vec<u32> {
        let puts = gpu.vendor().puts.lock();
        puts.iter()
            .filter_map(|put| if let Put::Launch(6, grid) = put { Some(*grid) } else { None })
            .collect()
    }

    #[test]
    fn on_a_capped_queue_blocks_take_turns() {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
        let mut queue = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
        queue.cap_blocks(Some(3));
        queue.launch(Seq(0), &launch_of(&gpu, 11), None).unwrap();
        queue.launch(Seq(1), &launch_of(&gpu, 2), None).unwrap();
        assert_eq!(grids(&gpu), [3, 2], "one launch each");
        assert_eq!(sorted(&gpu), [0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn what_had_no_turn_yet_is_left_by_an_eviction() {
        let (gpu, preemptor, mut queue) = hurried(PreemptLevel::All);
        queue.cap_blocks(Some(3));
        let launch = launch_of(&gpu, 11);
        let mut partial = None;
        for _ in 0..20 {
            queue.launch(Seq(0), &launch, partial.as_ref()).unwrap();
            let drained = preempt(&preemptor, &mut queue);
            partial = drained.partial;
            if drained.resume_at == Seq(1) {
                break;
            }
        }
        assert!(grids(&gpu).len() > 3, "it was preempted: {:?}", grids(&gpu));
        assert_eq!(sorted(&gpu), (0..11).collect::<Vec<_>>(), "each block once");
    }

    #[test]
    fn blocks_of_kernels_of_others_take_no_turns() {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
        let mut queue = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
        queue.cap_blocks(Some(3));
        let kernel = gpu.compile("").unwrap().kernel("theirs").unwrap();
        // SAFETY: the fake's blocks compute nothing.
        let launch = unsafe { Launch::new(kernel, [8, 1, 1], [32, 1, 1], Args::new(&[])) };
        queue.launch(Seq(0), &launch, None).unwrap();
        assert_eq!(grids(&gpu), [3, 3, 2]);
        assert_eq!(sorted(&gpu), (0..8).collect::<Vec<_>>());
    }

    /// A client that gets a kernel and a queue, runs a graph once, and leaves.
    fn come_and_go(gpu: &Gpu<Fake>, preemptor: &Preemptor<Fake>) {
        let graph = crate::Graph::new(gpu, &[Command::Launch(network_launch(gpu))]).unwrap();
        let mut queue = gpu.queue(Priority::BestEffort, Some(preemptor)).unwrap();
        queue.launch_graph(Seq(0), &graph, None).unwrap();
        while queue.completed().unwrap() == Seq(0) {}
    }

    fn network_launch(gpu: &Gpu<Fake>) -> Launch<Gpu<Fake>> {
        let kernel = gpu.network_kernel("conv_any_f32", 0, &[0]).unwrap();
        // SAFETY: as above.
        unsafe { Launch::new(kernel, [4, 1, 1], [32, 1, 1], Args::default()) }
    }

    #[test]
    fn who_comes_after_another_makes_no_slow_call_of_the_driver() {
        let gpu = Gpu::new(Fake::with_graphs(), Options::default()).unwrap();
        let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
        let calls = || gpu.vendor().slow_calls.load(std::sync::atomic::Ordering::Relaxed);
        let before = calls();
        come_and_go(&gpu, &preemptor);
        let first = calls();
        assert!(first > before, "the first opens a stream and looks kernels up");
        (0..10).for_each(|_| come_and_go(&gpu, &preemptor));
        assert_eq!(calls(), first);
    }

    #[test]
    fn a_graph_is_captured_when_a_best_effort_queue_runs_it_again() {
        let gpu = Gpu::new(Fake::with_graphs(), Options::default()).unwrap();
        let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
        let graph = crate::Graph::new(&gpu, &[Command::Launch(network_launch(&gpu))]).unwrap();
        let mut queue = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
        let (captured, captures) = std::sync::mpsc::channel();
        gpu.vendor().at_next_capture(move || captured.send(()).unwrap());
        queue.launch_graph(Seq(0), &graph, None).unwrap();
        assert!(captures.try_recv().is_err());
        queue.launch_graph(Seq(1), &graph, None).unwrap();
        assert_eq!(captures.try_recv(), Ok(()));
    }
}
