//! Progress of this process's work on a device, and waits for its part of the time.

use super::device::Device;
use super::tree::branch::streams;
use super::tree::stream::Stream;
use reef_guest::limit::WorkState;

impl Device {
    /// Waits for this process's part of the time, if that is limited. `mark` inserts a mark after
    /// the stream's work where one is due. Launches of a held guest have a bound of their own.
    #[inline]
    pub(crate) fn wait_for_time(&self, stream: &Stream, mark: impl Fn()) {
        let Some(meter) = &self.meter else { return };
        let is_ahead =
            |most| !self.page.holders.is_closed() && stream.counts.is_ahead(stream.done(), most);
        let poll = || {
            let (progress, is_idle) = self.progress();
            (progress, self.work_state(is_idle))
        };
        meter.wait(&self.spacing, is_ahead, mark, poll);
    }

    pub(super) fn work_state(&self, is_idle: bool) -> WorkState {
        if is_idle {
            WorkState::Ended
        } else if !self.is_real_time() && self.page.holders.is_closed() {
            WorkState::Held
        } else {
            WorkState::Working
        }
    }

    /// Notes that a thread has waited for work. If no other work is left, the time of its end is
    /// known.
    pub(crate) fn note_wait(&self) {
        if let Some(meter) = &self.meter
            && self.progress().1
        {
            meter.poll(WorkState::EndedNow);
        }
    }

    /// Returns a number that changes with launches and with progress of the streams, and whether
    /// all streams are idle.
    pub(super) fn progress(&self) -> (u32, bool) {
        streams(self).fold((0, true), |(sum, is_idle), stream| {
            let sum = sum.wrapping_add(stream.counts.issued()).wrapping_add(stream.done());
            (sum, is_idle && stream.is_idle())
        })
    }
}
