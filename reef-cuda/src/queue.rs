//! A stream, which a flag can stop.
//!
//! A queue that can be stopped launches the guarded build of kernels. While its flag is up, what the
//! stream says of its progress is worth nothing, because void launches end as well; then a report of the
//! device tells which blocks have stopped.

use crate::Cuda;
use crate::driver::BACKEND;
use crate::event::Event;
use crate::flag::Flag;
use crate::guarded::{Epoch, Guarded, launch_plain};
use crate::pads::Pads;
use crate::progress::Progress;
use crate::record::{Record, Segment, whole};
use crate::slots::Slot;
use crate::stream::Stream;
use reef_core::dkp::Padding;
use reef_core::{Args, Copy, Error, Fill, Launch, PreemptLevel, Preemptor, Result, Seq, Stopped};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::Thread;

/// A hardware queue.
#[derive(Debug)]
pub struct Queue {
    pub(crate) cuda: Cuda,
    pub(crate) stream: Stream,
    pub(crate) flag: Flag,
    pub(crate) progress: Progress,
    pub(crate) guarded: Guarded,
    /// Guarded launches that have not ended, in order.
    pub(crate) in_flight: VecDeque<InFlight>,
    /// A report is on its way.
    pub(crate) draining: bool,
    pub(crate) pads: Option<Pads>,
    /// The newest event that was recorded: its time is news when it is reached.
    pub(crate) newest_event: Option<Event>,
}

/// A guarded launch, or a part of one that resumes.
#[derive(Debug)]
pub(crate) struct InFlight {
    seq: u64,
    /// Blocks of the kernel, and of this launch.
    total: u32,
    blocks: u32,
    slot: Arc<Slot>,
    /// The list that it reads must outlive it.
    _source: Segment,
}

impl Queue {
    fn is_stoppable(&self) -> bool {
        self.flag.level() >= PreemptLevel::DeviceQueue
    }

    fn epoch(&self) -> Epoch {
        Epoch {
            live: self.flag.live(),
            value: self.flag.epoch(),
            may_stop: self.flag.level() >= PreemptLevel::All,
        }
    }

    fn launch_guarded(
        &mut self,
        seq: Seq,
        launch: &Launch<Cuda>,
        segments: &[Segment],
    ) -> Result<()> {
        for segment in segments {
            let slot = self.guarded.launch(&self.stream, launch, segment, self.epoch())?;
            let (total, blocks) = (launch.blocks(), segment.count);
            let _source = segment.clone();
            self.in_flight.push_back(InFlight { seq: seq.0, total, blocks, slot, _source });
        }
        Ok(())
    }

    /// Launches a kernel of ours: stoppable like any other, unless its effect can't be undone.
    fn launch_own(&mut self, seq: Seq, launch: &Launch<Cuda>, undoable: bool) -> Result<()> {
        if undoable && self.is_stoppable() {
            self.launch_guarded(seq, launch, &whole(launch.blocks()))?;
        } else {
            launch_plain(&self.stream, launch)?;
        }
        self.progress.launch(seq.0 + 1);
        Ok(())
    }

    /// Forgets guarded launches that have ended without being stopped.
    fn retire(&mut self) {
        let done = self.progress.done();
        while let Some(ended) = self.in_flight.pop_front_if(|launch| launch.seq < done) {
            self.guarded.give_back(ended.slot);
        }
    }

    /// What became of everything that was in flight, now that the device has reported.
    fn settle(&mut self) -> Result<Stopped<Cuda>> {
        let mut stop: Option<Stop> = None;
        for launch in std::mem::take(&mut self.in_flight) {
            let count = self.guarded.stopped(&launch.slot)?;
            match &mut stop {
                None if count == 0 => {}
                None => stop = Some(Stop::new(&launch, count)),
                Some(stop) if stop.seq == launch.seq => stop.add(&launch, count),
                Some(_) if count == launch.blocks => {}
                Some(_) => {
                    return Err(Error::State("cuda: a kernel ran behind one that was stopped"));
                }
            }
            self.guarded.give_back(launch.slot);
        }
        let next = stop.as_ref().map_or(self.progress.launched(), |stop| stop.seq);
        self.progress.rewind(next);
        Ok(Stopped { next: Seq(next), partial: stop.and_then(Stop::partial) })
    }
}

/// The first launch of which something was stopped.
struct Stop {
    seq: u64,
    total: u32,
    left: u32,
    segments: Vec<Segment>,
}

impl Stop {
    fn new(launch: &InFlight, count: u32) -> Self {
        let mut stop = Self { seq: launch.seq, total: launch.total, left: 0, segments: Vec::new() };
        stop.add(launch, count);
        stop
    }

    fn add(&mut self, launch: &InFlight, count: u32) {
        self.left += count;
        if count > 0 {
            self.segments.push(Segment { list: Some(launch.slot.clone()), first: 0, count });
        }
    }

    /// What is left of it, unless that is all.
    fn partial(self) -> Option<Record> {
        (self.left < self.total).then(|| Record::of(self.total, self.segments))
    }
}

impl reef_core::Queue for Queue {
    type Device = Cuda;

    fn launch(&mut self, seq: Seq, launch: &Launch<Cuda>, resume: Option<&Record>) -> Result<()> {
        match resume {
            Some(record) => {
                check_record(record, launch)?;
                self.launch_guarded(seq, launch, &record.segments())?;
            }
            None if launch.blocks() == 0 => {}
            None if self.is_stoppable() => {
                self.launch_guarded(seq, launch, &whole(launch.blocks()))?;
            }
            None => launch_plain(&self.stream, launch)?,
        }
        self.progress.launch(seq.0 + 1);
        Ok(())
    }

    fn launch_padded(
        &mut self,
        seq: Seq,
        rt: &Launch<Cuda>,
        padding: &Padding,
        be: &Launch<Cuda>,
        record: &Record,
    ) -> Result<()> {
        check_record(record, be)?;
        self.launch(seq, rt, None)?;
        if self.cuda.facts().stream_memory_ops {
            self.pads()?.pad(&self.stream, be, record, padding.be_blocks)?;
        }
        Ok(())
    }

    fn copy(&mut self, seq: Seq, copy: &Copy<Cuda>) -> Result<()> {
        let launch = copy_launch(&self.cuda, copy)?;
        self.launch_own_or_nothing(seq, launch, !copy.to_host)
    }

    fn fill(&mut self, seq: Seq, fill: &Fill<Cuda>) -> Result<()> {
        let launch = fill_launch(&self.cuda, fill)?;
        self.launch_own_or_nothing(seq, launch, true)
    }

    fn record(&mut self, seq: Seq, event: &Event) -> Result<()> {
        let words = [event.arm(), self.progress.address(), seq.0 + 1];
        // SAFETY: the kernel's parameters; event and mark outlive the stream's work.
        unsafe { self.stream.launch_one(self.cuda.builtin().stamp, 1, words) }?;
        self.progress.launch_marked(seq.0 + 1);
        self.newest_event = Some(event.clone());
        Ok(())
    }

    fn completed(&mut self) -> Result<Seq> {
        if self.flag.is_evicted() {
            return Ok(Seq(self.progress.done()));
        }
        self.progress.mark(&self.stream)?;
        let position = self.progress.look();
        if self.flag.is_evicted() {
            return Ok(Seq(self.progress.done())); // what was seen may be a void launch's end
        }
        let news = self.progress.note(position);
        if news {
            self.retire();
            self.observe_event();
        }
        self.progress.check(&self.stream, news || position == self.progress.launched())?;
        Ok(Seq(position))
    }

    fn try_drain(&mut self) -> Result<Option<Stopped<Cuda>>> {
        if !self.flag.is_evicted() {
            let done = self.completed()?;
            let all = done.0 == self.progress.launched();
            return Ok(all.then_some(Stopped { next: done, partial: None }));
        }
        if !self.draining {
            self.guarded.ask(&self.stream)?;
            self.draining = true;
        }
        if !self.guarded.is_answered() {
            self.progress.check(&self.stream, false)?;
            return Ok(None);
        }
        self.draining = false;
        self.settle().map(Some)
    }

    /// The device writes words that threads poll; it wakes nobody.
    fn wake(&mut self, _: Thread) -> bool {
        false
    }
}

impl Queue {
    fn launch_own_or_nothing(
        &mut self,
        seq: Seq,
        launch: Option<Launch<Cuda>>,
        undoable: bool,
    ) -> Result<()> {
        match launch {
            Some(launch) => self.launch_own(seq, &launch, undoable),
            None => {
                self.progress.launch(seq.0 + 1);
                Ok(())
            }
        }
    }

    fn pads(&mut self) -> Result<Pads> {
        if self.pads.is_none() {
            self.pads = Some(Pads::new(&self.cuda)?);
        }
        Ok(self.pads.clone().expect("made above"))
    }

    /// Tells the clock when the newest event was seen.
    fn observe_event(&mut self) {
        if let Some(stamp) = self.newest_event.as_ref().and_then(Event::stamp) {
            self.cuda.clock().observe(stamp);
            self.newest_event = None;
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let _ = self.stream.wait(); // before the memory that its work writes to is freed
    }
}

/// A block outside its kernel's grid must never run.
fn check_record(record: &Record, launch: &Launch<Cuda>) -> Result<()> {
    let (have, want) = (record.total(), launch.blocks());
    if have == want {
        return Ok(());
    }
    Err(Error::Invalid(format!("{BACKEND}: a record of {have} blocks for a launch of {want}")))
}

/// Threads of a block of the two kernels below.
const OWN_BLOCK: u32 = 256;
/// Least bytes that one block copies or fills.
const LEAST_CHUNK: usize = 4096;
/// About as many blocks as a large device runs at a time; evicting more takes longer.
const MOST_OWN_BLOCKS: usize = 1056;

/// Bytes for each block and how many blocks, so that blocks begin at multiples of 16 bytes.
fn divide(bytes: usize) -> (usize, u32) {
    let chunk = bytes.div_ceil(MOST_OWN_BLOCKS).next_multiple_of(16).max(LEAST_CHUNK);
    (chunk, bytes.div_ceil(chunk) as u32)
}

fn copy_launch(cuda: &Cuda, copy: &Copy<Cuda>) -> Result<Option<Launch<Cuda>>> {
    let from = copy.from.range(copy.from_offset, copy.bytes)?;
    let to = copy.to.range(copy.to_offset, copy.bytes)?;
    let (chunk, blocks) = divide(copy.bytes);
    let args = Args::new(&[from, to, copy.bytes as u64, chunk as u64]);
    // SAFETY: the kernel's parameters; the ranges are inside the buffers, and blocks write disjoint
    // parts.
    Ok(own_launch(blocks, || unsafe {
        Launch::new(cuda.builtin().copy.clone(), [blocks, 1, 1], [OWN_BLOCK, 1, 1], args)
    }))
}

fn fill_launch(cuda: &Cuda, fill: &Fill<Cuda>) -> Result<Option<Launch<Cuda>>> {
    let to = fill.buffer.range(fill.offset, fill.bytes)?;
    if !fill.bytes.is_multiple_of(4) || !to.is_multiple_of(4) {
        let (bytes, offset) = (fill.bytes, fill.offset);
        let text = format!("{BACKEND}: a fill of {bytes} bytes at {offset} is not of whole words");
        return Err(Error::Invalid(text));
    }
    let (chunk, blocks) = divide(fill.bytes);
    let args = Args::new(&[to, fill.bytes as u64 / 4, fill.word.into(), chunk as u64 / 4]);
    // SAFETY: the kernel's parameters; the range is inside the buffer, and blocks write disjoint parts.
    Ok(own_launch(blocks, || unsafe {
        Launch::new(cuda.builtin().fill.clone(), [blocks, 1, 1], [OWN_BLOCK, 1, 1], args)
    }))
}

fn own_launch(blocks: u32, make: impl FnOnce() -> Launch<Cuda>) -> Option<Launch<Cuda>> {
    (blocks > 0).then(make)
}
