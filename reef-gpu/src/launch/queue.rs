//! A stream, which a flag can stop.
//!
//! A queue that can be stopped launches the guarded build of kernels. While its flag is up, what the
//! stream says of its progress is worth nothing, because void launches end as well; then a report of the
//! device tells which blocks have stopped.

use crate::driver::event::Event;
use crate::driver::signal::DeviceWord;
use crate::driver::stream::Stream;
use crate::driver::timeout::Patience;
use crate::gpu::Gpu;
use crate::launch::checkpoint::{Checkpoint, Segment, whole};
use crate::launch::gated::Gated;
use crate::launch::graph::Graph;
use crate::launch::guarded::{Epoch, Guarded};
use crate::launch::in_flight::{InFlight, Source, Stop};
use crate::launch::timeline::Progress;
use crate::preempt::preemptor::Flag;
use crate::vendor::calls::Vendor;
use reef_core::{Drained, Error, Launch, PreemptLevel, Preemptor, Priority, Result, Seq};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Most launches that one launch becomes on a narrow queue; larger grids run wider.
const MOST_PARTS: u32 = 16;
/// Longest that a batch runs behind a closed gate before the driver is asked whether the device is there.
const SILENCE: Duration = Duration::from_secs(5);

/// A hardware queue.
#[derive(Debug)]
pub struct Queue<V: Vendor> {
    pub(crate) gpu: Gpu<V>,
    pub(crate) stream: Stream<V>,
    pub(crate) flag: Flag<V>,
    /// Its launches go through a gate, because kernels have no guards.
    pub(crate) gated: Option<Gated<V>>,
    pub(crate) progress: Progress<V>,
    pub(crate) guarded: Guarded<V>,
    /// Guarded launches that have not ended, in order.
    pub(crate) in_flight: VecDeque<InFlight<V>>,
    /// The epoch whose end the report on its way is about.
    pub(crate) draining: Option<u32>,
    pub(crate) patience: Patience,
    pub(crate) priority: Priority,
    /// Most blocks at a time.
    pub(crate) width: Option<u32>,
    /// Holds the epoch of graphs, and which one was written last.
    pub(crate) epoch_word: Option<DeviceWord<V>>,
    pub(crate) epoch_written: Option<u32>,
    /// Dropped with the queue, so that graphs know.
    pub(crate) token: Arc<()>,
    /// The newest event that was recorded: its time is news when it is reached.
    pub(crate) newest_event: Option<Event<V>>,
}

impl<V: Vendor> Queue<V> {
    /// Whether it launches guarded kernels.
    pub(super) fn is_stoppable(&self) -> bool {
        self.flag.level() >= PreemptLevel::DeviceQueue && self.gated.is_none()
    }

    /// Whether what the device says of the ends of launches is worth nothing.
    pub(super) fn is_void(&self) -> bool {
        self.gated.is_none() && self.flag.is_evicted()
    }

    /// Whether a gate has been closed so short a time that the driver must not be asked: it may hang in a
    /// call that waits for the gate.
    pub(super) fn is_behind_gate(&self) -> bool {
        let closed = self.gated.as_ref().and_then(Gated::closed_for);
        closed.is_some_and(|time| time < SILENCE)
    }

    /// Launches what nobody stops midway, behind the gate if there is one.
    pub(super) fn launch_open(
        &mut self,
        seq: Seq,
        launch: impl FnOnce(&Stream<V>) -> Result<()>,
    ) -> Result<()> {
        let stream = &self.stream;
        match &mut self.gated {
            None => launch(stream),
            Some(gated) => gated.launch(stream, &mut self.progress, seq.0 + 1, || launch(stream)),
        }
    }

    /// A command has been launched that must not be held back; it runs alone.
    pub(super) fn launched_free(&mut self, seq: Seq) {
        if let Some(gated) = &mut self.gated {
            gated.launch_free(seq.0 + 1);
        }
    }

    /// Nothing has ended; the queue is given up if that has been so for too long.
    pub(super) fn bear(&mut self) -> Result<()> {
        let Some(time) = self.patience.is_over() else { return Ok(()) };
        self.stream.give_up();
        let why = format!("nothing in a queue has ended for {time:?}; it is given up");
        Err(Error::DeviceLost { backend: V::NAME, why })
    }

    pub(super) fn epoch(&self) -> Epoch {
        Epoch {
            live: self.flag.live(),
            value: self.flag.epoch(),
            word: 0,
            may_stop: self.flag.level() >= PreemptLevel::All,
        }
    }

    /// Launches some blocks of a kernel, which is launch `node` of a command of `total` blocks; a narrow
    /// queue launches them a few at a time.
    pub(super) fn launch_segment(
        &mut self,
        (seq, node, total): (Seq, usize, u32),
        launch: &Launch<Gpu<V>>,
        segment: &Segment<V>,
        record: Option<&Checkpoint<V>>,
    ) -> Result<()> {
        let seq = seq.0;
        let width = self.width.map_or(u32::MAX, |w| w.max(segment.count.div_ceil(MOST_PARTS)));
        for part in segment.parts(width) {
            let slot = self.guarded.launch(&self.stream, launch, &part, self.epoch());
            let slot = slot.inspect_err(|_| {
                let _ = self.stream.wait(); // earlier parts may run, and nobody will ask for them
            })?;
            let (blocks, record) = (part.count, record.cloned());
            let source = Source::Segment(part);
            self.in_flight.push_back(InFlight { seq, node, total, blocks, slot, source, record });
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
        record: &Checkpoint<V>,
    ) -> Result<()> {
        for segment in record.segments() {
            self.launch_segment(at, launch, segment, Some(record))?;
        }
        Ok(())
    }

    /// Forgets guarded launches that have ended without being stopped.
    pub(super) fn retire(&mut self) {
        let done = self.progress.done();
        while let Some(ended) = self.in_flight.pop_front_if(|launch| launch.seq < done) {
            ended.settle();
            self.give_back(ended);
        }
    }

    pub(super) fn give_back(&mut self, launch: InFlight<V>) {
        if matches!(launch.source, Source::Segment(_)) {
            self.guarded.give_back(launch.slot);
        }
    }

    /// What became of everything that was in flight, now that the device has reported.
    pub(super) fn settle(&mut self) -> Result<Drained<Gpu<V>>> {
        let mut stop: Option<Stop<V>> = None;
        for launch in std::mem::take(&mut self.in_flight) {
            let count = self.guarded.stopped(&launch.slot)?;
            launch.settle();
            match &mut stop {
                None if count == 0 => {}
                None => stop = Some(Stop::new(&launch, count)),
                Some(stop) => stop.add(&launch, count)?,
            }
            self.give_back(launch);
        }
        let next = stop.as_ref().map_or(self.progress.launched(), |stop| stop.seq);
        self.progress.rewind(next);
        Ok(Drained { resume_at: Seq(next), partial: stop.and_then(Stop::partial), held: false })
    }
}

impl<V: Vendor> Queue<V> {
    /// Each launch of a guarded graph reads the epoch from a word, which is set in front where it isn't the
    /// one that was set there before: graphs of earlier epochs are ahead in the stream, and void.
    pub(super) fn launch_guarded_graph(&mut self, seq: Seq, graph: &Graph<V>) -> Result<()> {
        let word = match &self.epoch_word {
            Some(word) => word.address(),
            None => self.epoch_word.insert(DeviceWord::new(self.gpu.context())?).address(),
        };
        let epoch = Epoch { word, ..self.epoch() };
        let exec =
            graph.guarded(&self.gpu, &self.token, self.priority, &mut self.guarded, epoch)?;
        if self.epoch_written != Some(epoch.value) {
            self.gpu.writer().write(&self.stream, word, epoch.value)?;
            self.epoch_written = Some(epoch.value);
        }
        exec.launch(&self.stream)?;
        for (node, (launch, slot)) in graph.launches().iter().zip(exec.slots()).enumerate() {
            self.in_flight.push_back(InFlight {
                seq: seq.0,
                node,
                total: graph.blocks(),
                blocks: launch.blocks(),
                slot: slot.clone(),
                source: Source::Graph(exec.clone()),
                record: None,
            });
        }
        Ok(())
    }

    /// What remains of a graph is launched one by one.
    pub(super) fn resume_graph(
        &mut self,
        seq: Seq,
        graph: &Graph<V>,
        record: &Checkpoint<V>,
    ) -> Result<()> {
        let total = graph.blocks();
        check_record(record, total)?;
        let first = record.node();
        for (node, launch) in graph.launches().iter().enumerate().skip(first) {
            let at = (seq, node, total);
            if node == first {
                self.launch_rest(at, launch, record)?;
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
pub(super) fn check_record<V: Vendor>(record: &Checkpoint<V>, want: u32) -> Result<()> {
    let have = record.total();
    if have == want {
        return Ok(());
    }
    let text = format!("{}: a record of {have} blocks for a launch of {want}", V::NAME);
    Err(Error::Invalid(text))
}
