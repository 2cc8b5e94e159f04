//! Accounting of launches: ended or stopped.
//!
//! In: what the timeline or a report of the device says. Out: the first command that is not
//! complete, and what remains of it.

use crate::driver::event::Event;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::launch::queue::hardware_queue::Queue;
use crate::launch::queue::in_flight::{InFlight, Remainder};
use reef_core::{Drained, Result, Seq};

impl<V: Vendor> Queue<V> {
    /// Drains a queue in which no launch is void: launches that have not ended are running, or are
    /// held back by the gate.
    pub(super) fn drain_whole(&mut self) -> Result<Option<Drained<Gpu<V>>>> {
        let next = reef_core::Queue::completed(self)?;
        let is_done = next.0 == self.timeline.launched();
        let held = self.gated.as_mut().is_some_and(|gated| gated.stands(next.0));
        Ok((is_done || held).then_some(Drained { resume_at: next, partial: None, held: !is_done }))
    }

    /// Forgets guarded commands that have ended without being stopped.
    pub(super) fn retire(&mut self) {
        let done = self.timeline.done();
        while let Some(ended) = self.in_flight.pop_front_if(|launch| launch.seq < done) {
            ended.retire();
            self.give_back(ended);
        }
        self.retained.retire(done);
    }

    pub(super) fn give_back(&mut self, launch: InFlight<V>) {
        if launch.exec.is_none() {
            self.guarded.give_back(launch.stop_list);
        }
    }

    /// Sorts everything that was in flight into ended and stopped, now that the device has
    /// reported.
    pub(super) fn reap(&mut self) -> Result<Drained<Gpu<V>>> {
        let mut remainder: Option<Remainder<V>> = None;
        for launch in std::mem::take(&mut self.in_flight) {
            let count = self.guarded.stopped(&launch.stop_list)?;
            launch.retire();
            match &mut remainder {
                None if count == 0 => {}
                None => remainder = Some(launch.remainder(count)?),
                Some(_) => launch.check_void(count)?,
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

    /// Tells the clock when the newest event was seen.
    pub(super) fn observe_event(&mut self) {
        if let Some(stamp) = self.newest_event.as_ref().and_then(Event::stamp) {
            self.gpu.clock().observe(stamp);
            self.newest_event = None;
        }
    }
}
