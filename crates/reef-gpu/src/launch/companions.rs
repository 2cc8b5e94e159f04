//! Streams next to a real-time queue, in which blocks of best-effort kernels pad its kernels.
//!
//! In: blocks of a checkpoint, and the real-time command that they run next to. Out: the device's
//! answer to the checkpoint which of them it stopped. Invariant: a stream has the blocks of one
//! command at a time, so blocks that don't end hold up no other's; what they use is kept until
//! they have.

use crate::code::kernel::Kernel;
use crate::driver::signal::DeviceSignal;
use crate::driver::stream::Stream;
use crate::driver::timeout::Timeout;
use crate::gpu::Gpu;
use crate::hal::calls::{Start, Vendor};
use crate::launch::checkpoint::{Checkpoint, Pad, Segment};
use crate::launch::guarded::{Epoch, Guarded, GuardedLaunch};
use reef_core::{Launch, MemoryHandle, Priority, Result};
use std::sync::Arc;

/// Streams of a queue: kernels that could be padded are launched two ahead, and blocks that were
/// told to stop may take longer than a short kernel.
const STREAMS: usize = 4;

/// Companions of one queue.
#[derive(Debug)]
pub(crate) struct Companions<V: Vendor> {
    /// Dropped first: that waits for what is in them.
    streams: Vec<Companion<V>>,
    guarded: Guarded<V>,
    /// Lowest epoch that may run.
    live: DeviceSignal<V>,
    /// Epoch of the next padding. The end of its real-time kernel makes it void.
    epoch: u32,
}

/// A stream, and what is in it.
#[derive(Debug)]
struct Companion<V: Vendor> {
    stream: Stream<V>,
    timeout: Timeout,
    running: Option<Running<V>>,
}

/// Blocks that run, or will.
#[derive(Debug)]
struct Running<V: Vendor> {
    /// Position of the real-time command that they run next to.
    seq: u64,
    /// Blocks at a time.
    width: u32,
    pad: Arc<Pad<V>>,
    /// The driver has the kernel that answers.
    is_asked: bool,
    _kernel: Kernel<V>,
    _memory: MemoryHandle<Gpu<V>>,
}

/// Blocks that are to run next to a real-time command.
pub(crate) struct Plan<'a, V: Vendor> {
    pub(crate) launch: &'a Launch<Gpu<V>>,
    pub(crate) record: &'a Checkpoint<V>,
    pub(crate) segment: Segment<V>,
    /// Blocks at a time.
    pub(crate) width: u32,
}

impl<V: Vendor> Companions<V> {
    pub(crate) fn open(gpu: &Gpu<V>) -> Result<Self> {
        let companion = |_| -> Result<Companion<V>> {
            let stream = Stream::open(gpu.context(), Priority::BestEffort)?;
            Ok(Companion { stream, timeout: gpu.timeout(Priority::BestEffort), running: None })
        };
        Ok(Self {
            streams: (0..STREAMS).map(companion).collect::<Result<_>>()?,
            guarded: Guarded::new(gpu.context(), gpu.builtin().report)?,
            live: DeviceSignal::new(gpu.control())?,
            epoch: 0,
        })
    }

    /// A stream with nothing in it, and the number of blocks at a time in all others.
    pub(crate) fn free(&mut self) -> Option<(usize, u32)> {
        self.reap();
        let is_free = |companion: &Companion<V>| {
            companion.running.is_none() && !companion.stream.is_abandoned()
        };
        let at = self.streams.iter().position(is_free)?;
        let running = self.streams.iter().filter_map(|companion| companion.running.as_ref());
        Some((at, running.map(|running| running.width).sum()))
    }

    pub(crate) fn stream(&self, at: usize) -> &Stream<V> {
        &self.streams[at].stream
    }

    /// The word and the value that make the next padding void.
    pub(crate) fn end(&self) -> (u64, u32) {
        (self.live.address(), self.epoch.wrapping_add(1))
    }

    /// The word that makes the next padding void has been put behind its real-time kernel, or
    /// there is none: the one after it has another.
    pub(crate) fn next_epoch(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Launches blocks in a stream that is free, and lets the device answer behind them. The plan
    /// is taken when the driver has them.
    pub(crate) fn launch(
        &mut self,
        at: usize,
        seq: u64,
        plan: &mut Option<Plan<'_, V>>,
    ) -> Result<()> {
        let Some(&Plan { launch, record, ref segment, width }) = plan.as_ref() else {
            return Ok(());
        };
        let stop_list = self.guarded.stop_list(segment.count)?;
        let companion = &mut self.streams[at];
        let context = companion.stream.context();
        let pad = Arc::new(Pad::new(context, segment.clone(), stop_list.clone())?);
        let (live, value) = (self.live.address(), self.epoch);
        let guarded = GuardedLaunch {
            launch,
            segment,
            stop_list: &stop_list,
            width,
            start: Start::InTurn,
            epoch: Epoch { live, value, word: 0, may_stop: true },
        };
        self.guarded
            .launch(&companion.stream, &guarded)
            .inspect_err(|_| self.guarded.give_back(stop_list.clone()))?;
        record.note_pad(pad.clone());
        let (_kernel, _memory) = (launch.kernel().clone(), launch.memory());
        *plan = None;
        companion.timeout.restart();
        companion.running = Some(Running { seq, width, pad, is_asked: false, _kernel, _memory });
        companion.ask(&self.guarded);
        Ok(())
    }

    /// Forgets work that has ended, and abandons streams in which nothing ends.
    fn reap(&mut self) {
        for companion in &mut self.streams {
            companion.ask(&self.guarded);
            if let Some(ended) = companion.ended() {
                self.guarded.give_back(ended.pad.stop_list.clone());
            }
        }
    }

    /// The oldest command next to which something may still run.
    pub(crate) fn oldest(&mut self) -> Option<u64> {
        self.reap();
        let is_kept = |companion: &&Companion<V>| !companion.stream.is_abandoned();
        let running = self.streams.iter().filter(is_kept).filter_map(|of| of.running.as_ref());
        running.map(|running| running.seq).min()
    }

    /// Waits until nothing runs, or abandons streams whose work doesn't end. Returns whether it has
    /// abandoned one.
    pub(crate) fn wait(&mut self) -> bool {
        for Companion { stream, timeout, .. } in &mut self.streams {
            let _ = stream.wait_or_abandon(timeout);
        }
        self.is_abandoned()
    }

    /// Waits for nothing that is in the streams.
    pub(crate) fn abandon(&mut self) {
        let running = self.streams.iter_mut().filter(|companion| companion.running.is_some());
        running.for_each(|companion| companion.stream.abandon());
    }

    fn is_abandoned(&self) -> bool {
        self.streams.iter().any(|companion| companion.stream.is_abandoned())
    }
}

impl<V: Vendor> Companion<V> {
    /// Has the device answer, if the driver has not taken that yet: a later call tries again.
    fn ask(&mut self, guarded: &Guarded<V>) {
        if let Some(running) = self.running.as_mut().filter(|running| !running.is_asked) {
            let to = running.pad.answer();
            running.is_asked = guarded.ask_for(&self.stream, &running.pad.stop_list, to).is_ok();
        }
    }

    /// Takes out what has ended.
    fn ended(&mut self) -> Option<Running<V>> {
        let has_ended = self.running.as_ref()?.pad.stopped().is_some();
        if !has_ended && self.timeout.expired().is_some() {
            self.stream.abandon();
        }
        self.running.take_if(|_| has_ended)
    }
}
