//! Launches that can be stopped: kernels, parts of them, and graphs.
//!
//! In: a launch or graph with its position, and the checkpoint that it resumes, if any. Out: an
//! entry in `in_flight` for each command that the driver got.

use crate::driver::signal::DeviceSignal;
use crate::gpu::Gpu;
use crate::hal::calls::{Start, Vendor};
use crate::launch::checkpoint::{Checkpoint, Segment, whole};
use crate::launch::graph::{Graph, Runner};
use crate::launch::guarded::{Epoch, GuardedLaunch};
use crate::launch::queue::hardware_queue::Queue;
use crate::launch::queue::in_flight::InFlight;
use crate::launch::stop_lists::StopList;
use reef_core::{Error, Launch, Result, Seq};
use std::slice;

/// Maximum of launches that one launch becomes on a capped queue whose kernel's blocks don't take
/// turns; larger grids run wider.
const MAX_PARTS: u32 = 16;

/// Part of a command that is launched.
struct Rest<'a, V: Vendor> {
    launches: &'a [Launch<Gpu<V>>],
    graph: Option<&'a Graph<V>>,
    /// The first launch of which something is left, what is, and how many blocks launches after it
    /// have.
    node: usize,
    segments: &'a [Segment<V>],
    later: u32,
    checkpoint: Option<&'a Checkpoint<V>>,
}

impl<'a, V: Vendor> Rest<'a, V> {
    fn of(
        launches: &'a [Launch<Gpu<V>>],
        graph: Option<&'a Graph<V>>,
        checkpoint: &'a Checkpoint<V>,
        segments: &'a [Segment<V>],
    ) -> Self {
        Self {
            launches,
            graph,
            node: checkpoint.node(),
            segments,
            later: checkpoint.later_blocks(),
            checkpoint: Some(checkpoint),
        }
    }
}

impl<V: Vendor> Queue<V> {
    /// Launches all blocks of a kernel so that they can be stopped.
    pub(super) fn launch_whole(&mut self, seq: Seq, launch: &Launch<Gpu<V>>) -> Result<()> {
        let (launches, segment) = (slice::from_ref(launch), whole(launch.blocks()));
        let (segments, graph, checkpoint) = (slice::from_ref(&segment), None, None);
        self.launch_left(seq, &Rest { launches, graph, node: 0, segments, later: 0, checkpoint })
    }

    /// Launches what is left of a kernel.
    pub(super) fn launch_rest(
        &mut self,
        seq: Seq,
        launch: &Launch<Gpu<V>>,
        checkpoint: &Checkpoint<V>,
    ) -> Result<()> {
        let launches = slice::from_ref(launch);
        let segments = self.settle(checkpoint, launches)?;
        self.launch_left(seq, &Rest::of(launches, None, checkpoint, &segments))
    }

    /// Launches the rest of a graph, kernel by kernel.
    pub(super) fn resume_graph(
        &mut self,
        seq: Seq,
        graph: &Graph<V>,
        checkpoint: &Checkpoint<V>,
    ) -> Result<()> {
        let segments = self.settle(checkpoint, graph.launches())?;
        self.launch_left(seq, &Rest::of(graph.launches(), Some(graph), checkpoint, &segments))
    }

    /// The blocks that are left of the launch that a checkpoint of these launches begins with.
    ///
    /// Waits for those that run next to real-time kernels: the kernels' ends stop them.
    fn settle(
        &mut self,
        checkpoint: &Checkpoint<V>,
        launches: &[Launch<Gpu<V>>],
    ) -> Result<Vec<Segment<V>>> {
        checkpoint.check_total(launches.iter().map(Launch::blocks).sum())?;
        loop {
            if let Some(segments) = checkpoint.settled() {
                return Ok(segments);
            }
            self.check_timeout()?;
            self.timeline.check(&self.stream, false)?;
            std::thread::yield_now();
        }
    }

    fn launch_left(&mut self, seq: Seq, rest: &Rest<'_, V>) -> Result<()> {
        let &Rest { launches, graph, node, segments, later, checkpoint } = rest;
        let blocks = segments.iter().map(|segment| segment.count).sum();
        let stop_list = self.guarded.stop_list(blocks + later)?;
        for (at, launch) in launches.iter().enumerate().skip(node) {
            let all = whole(launch.blocks());
            let segments = if at == node { segments } else { slice::from_ref(&all) };
            let mut segments = segments.iter();
            let launched = segments
                .try_for_each(|segment| self.launch_segment(at, launch, segment, &stop_list));
            launched.inspect_err(|_| {
                // Earlier parts may run, and have no entry in `in_flight`.
                let _ = self.stream.wait();
            })?;
        }
        self.in_flight.push_back(InFlight {
            seq: seq.0,
            total: launches.iter().map(Launch::blocks).sum(),
            node,
            blocks,
            later,
            stop_list,
            graph: graph.cloned(),
            exec: None,
            checkpoint: checkpoint.cloned(),
        });
        Ok(())
    }

    /// Launches some blocks of a kernel, which is launch `node` of its command. On a capped queue
    /// they take turns, or are launched a few at a time.
    fn launch_segment(
        &mut self,
        node: usize,
        launch: &Launch<Gpu<V>>,
        segment: &Segment<V>,
        stop_list: &StopList<V>,
    ) -> Result<()> {
        let takes_turns = launch.kernel().turns().is_some();
        let cap = self.block_cap.unwrap_or(u32::MAX);
        let most = if takes_turns { u32::MAX } else { cap.max(segment.count.div_ceil(MAX_PARTS)) };
        // Next to real-time work, launches of a graph start early as they do in the graph.
        let early = self.block_cap.is_some();
        let start = if early { self.gpu.start_of(node) } else { Start::InTurn };
        let epoch = self.epoch();
        segment.parts(most).try_for_each(|part| {
            let width = if takes_turns { part.count.min(cap) } else { part.count };
            let segment = &part;
            let launch = GuardedLaunch { launch, segment, stop_list, width, start, epoch };
            self.guarded.launch(&self.stream, &launch)
        })
    }

    /// Each launch of a guarded graph reads the epoch from a word, which is set in front where it
    /// isn't the one that was set there before: graphs of earlier epochs are ahead in the stream,
    /// and void.
    pub(super) fn launch_guarded_graph(&mut self, seq: Seq, graph: &Graph<V>) -> Result<()> {
        let word = match &self.epoch_signal {
            Some(word) => word.address(),
            None => self.epoch_signal.insert(DeviceSignal::new(self.gpu.control())?).address(),
        };
        let epoch = Epoch { word, ..self.epoch() };
        // Not by `runner`, which would borrow all of the queue.
        let runner = Runner { queue: &self.token, class: self.priority, percent: self.percent };
        let exec = graph.guarded(&self.gpu, runner, &mut self.guarded, epoch)?;
        let Some(stop_list) = exec.stop_list().cloned() else {
            return Err(Error::state(
                "a graph on a queue that can be stopped",
                "it was prepared for one that nothing stops",
            ));
        };
        if self.epoch_written != Some(epoch.value) {
            self.gpu.writer().write(&self.stream, word, epoch.value)?;
            self.epoch_written = Some(epoch.value);
        }
        exec.launch(&self.stream)?;
        let blocks = graph.launches()[0].blocks();
        self.in_flight.push_back(InFlight {
            seq: seq.0,
            total: graph.blocks(),
            node: 0,
            blocks,
            later: graph.blocks() - blocks,
            stop_list,
            graph: Some(graph.clone()),
            exec: Some(exec),
            checkpoint: None,
        });
        Ok(())
    }
}
