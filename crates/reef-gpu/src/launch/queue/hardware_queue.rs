//! The queue itself: its stream, what is in it, and what may be done just now.

use crate::driver::event::Event;
use crate::driver::signal::DeviceSignal;
use crate::driver::stream::Stream;
use crate::driver::timeout::Timeout;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::launch::companions::Companions;
use crate::launch::gated::Gated;
use crate::launch::graph::Runner;
use crate::launch::guarded::{Epoch, Guarded};
use crate::launch::queue::in_flight::InFlight;
use crate::launch::queue::retained::Retained;
use crate::launch::timeline::Timeline;
use crate::preempt::preemptor::Preemptor;
use reef_core::{Error, PreemptLevel, Preemptor as _, Priority, Result, Seq};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

/// Longest that a batch runs behind a closed gate before the driver is asked whether the device is
/// there.
const MAX_SILENCE: Duration = Duration::from_secs(5);

/// A hardware queue.
#[derive(Debug)]
pub struct Queue<V: Vendor> {
    pub(crate) gpu: Gpu<V>,
    pub(crate) stream: Stream<V>,
    pub(crate) preemptor: Preemptor<V>,
    /// Gate that launches go through, because kernels have no guards.
    pub(crate) gated: Option<Gated<V>>,
    /// These two are dropped with the queue, unless its stream was left alone.
    pub(crate) timeline: ManuallyDrop<Timeline<V>>,
    pub(crate) guarded: ManuallyDrop<Guarded<V>>,
    /// Guarded launches that have not ended, in order.
    pub(crate) in_flight: VecDeque<InFlight<V>>,
    /// Best-effort blocks that run next to its kernels, once there have been some.
    pub(crate) companions: Option<Box<Companions<V>>>,
    /// Buffers and kernels of the commands that have not ended.
    pub(crate) retained: Retained<V>,
    /// The epoch in which all that is in flight was made. Another one begins when nothing is.
    pub(crate) epoch: u32,
    /// A report on what is in flight is on its way.
    pub(crate) draining: bool,
    pub(crate) timeout: Timeout,
    pub(crate) priority: Priority,
    /// Maximum of blocks at a time.
    pub(crate) block_cap: Option<u32>,
    /// Part of the units that whole graphs run on, in percent.
    pub(crate) percent: u32,
    /// Holds the epoch of graphs, and which one was written last.
    pub(crate) epoch_signal: Option<DeviceSignal<V>>,
    pub(crate) epoch_written: Option<u32>,
    /// Dropped with the queue, so that graphs know; of queues that nothing stops, one for all of a
    /// class.
    pub(crate) token: Arc<()>,
    /// The newest event that was recorded: its time is a sign of life when it is reached.
    pub(crate) newest_event: Option<Event<V>>,
}

impl<V: Vendor> Queue<V> {
    /// Returns whether it launches guarded kernels.
    pub(super) fn is_stoppable(&self) -> bool {
        self.preemptor.level() >= PreemptLevel::DeviceQueue && self.gated.is_none()
    }

    /// Returns whether blocks that have started check whether they must stop.
    pub(super) fn running_blocks_stop(&self) -> bool {
        self.preemptor.level() >= PreemptLevel::All
    }

    /// Returns whether the device's reports of ended launches mean nothing: the launches in flight
    /// were evicted, and have not been drained since, whatever other queues do by now.
    pub(super) fn is_void(&self) -> bool {
        let is_evicted = || self.preemptor.is_evicted() || self.preemptor.epoch() != self.epoch;
        self.gated.is_none() && !self.timeline.is_idle() && is_evicted()
    }

    /// Returns whether a gate was closed so recently that the driver must not be asked: it may hang
    /// in a call that waits for the gate.
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

    /// Goes to the epoch that the next command belongs into.
    ///
    /// # Errors
    ///
    /// `State` if a report is on its way: it says nothing of what is launched behind it, which
    /// would be lost.
    pub(super) fn begin_command(&mut self) -> Result<()> {
        if self.draining {
            return Err(Error::state("a launch on an evicted queue", "it is being drained"));
        }
        if self.timeline.is_idle() {
            self.epoch = self.preemptor.epoch();
        }
        Ok(())
    }

    /// A command has been launched that must not be held back; it runs alone.
    pub(super) fn launched_free(&mut self, seq: Seq) {
        if let Some(gated) = &mut self.gated {
            gated.launch_free(seq.0 + 1);
        }
    }

    /// Nothing has ended; the queue is abandoned if that has been so for too long.
    pub(super) fn check_timeout(&mut self) -> Result<()> {
        let Some(time) = self.timeout.expired() else { return Ok(()) };
        self.stream.abandon();
        let why = format!("nothing in a queue has ended for {time:?}; it is abandoned");
        Err(Error::DeviceLost { backend: V::NAME, why })
    }

    /// Queue and units of a graph that it launches.
    pub(crate) fn runner(&self) -> Runner<'_> {
        Runner { queue: &self.token, class: self.priority, percent: self.percent }
    }

    pub(super) fn epoch(&self) -> Epoch {
        Epoch {
            live: self.preemptor.live(),
            value: self.epoch,
            word: 0,
            may_stop: self.running_blocks_stop(),
        }
    }
}
