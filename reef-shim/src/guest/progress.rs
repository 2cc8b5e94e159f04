//! What a device has of this process: whether it works, and who has to wait for that.

use super::device::Device;
use super::tree::branch::streams;
use super::tree::stream::Stream;
use reef_guest::limit::WorkState;

impl Device {
    /// Waits for this process's part of the time, if that is limited; `mark` puts a mark behind the
    /// stream's work. A held guest's launches have a bound of their own.
    #[inline]
    pub(crate) fn wait_for_time(&self, stream: &Stream, mark: impl FnOnce()) {
        let Some(meter) = &self.meter else { return };
        let is_ahead =
            |most| !self.page.holders.is_closed() && stream.counts.is_ahead(stream.done(), most);
        meter.wait(&self.spacing, is_ahead, mark, || self.seen(self.progress().1));
    }

    /// What a look shows that found its streams so.
    pub(super) fn seen(&self, is_idle: bool) -> WorkState {
        match is_idle {
            true => WorkState::Ended,
            false if !self.is_real_time() && self.page.holders.is_closed() => WorkState::Held,
            false => WorkState::Working,
        }
    }

    /// A thread has waited for work: if that was all there is, its time is known.
    pub(crate) fn waited(&self) {
        if let Some(meter) = &self.meter
            && self.progress().1
        {
            meter.look(WorkState::EndedNow);
        }
    }

    /// A number that changes as streams are given work and come further, and whether all have come
    /// to their ends.
    pub(super) fn progress(&self) -> (u32, bool) {
        streams(self).fold((0, true), |(sum, is_idle), stream| {
            let sum = sum.wrapping_add(stream.counts.issued()).wrapping_add(stream.done());
            (sum, is_idle && stream.is_idle())
        })
    }
}
