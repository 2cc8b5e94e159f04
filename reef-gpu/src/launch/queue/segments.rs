//! Launches that can be stopped: kernels, parts of them, and graphs.
//!
//! In: a launch or graph with its position, and the checkpoint that it resumes, if any. Out: an entry in `in_flight`
//! for each launch that the driver got.

use crate::driver::signal::DeviceSignal;
use crate::gpu::Gpu;
use crate::launch::checkpoint::{Checkpoint, Segment, whole};
use crate::launch::graph::Graph;
use crate::launch::guarded::Epoch;
use crate::launch::queue::hardware_queue::Queue;
use crate::launch::queue::in_flight::{InFlight, Source};
use crate::vendor::calls::{Start, Vendor};
use reef_core::{Error, Launch, Result, Seq};

/// Most launches that one launch becomes on a capped queue whose kernel's blocks don't take turns; larger grids run
/// wider.
const MAX_PARTS: u32 = 16;

impl<V: Vendor> Queue<V> {
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
        // Beside real-time work, launches of a graph start early as they do in the graph.
        let early = self.block_cap.is_some();
        let start = if early { self.gpu.start_of(node) } else { Start::InTurn };
        for part in segment.parts(most) {
            let width = if takes_turns { part.count.min(cap) } else { part.count };
            let epoch = self.epoch();
            let call = (&self.stream, start);
            let stop_list = self.guarded.launch(call, launch, &part, width, epoch);
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
