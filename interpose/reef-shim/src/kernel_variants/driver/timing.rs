//! Durations of launches by events of the program's own stream.

use super::calls as driver;
use crate::driver::calls::{self, Stream};
use std::time::Duration;

/// Events before and after a launch. They are of the context that the shape is of, so they are used
/// only while that context lives.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernel_variants) struct Events {
    from: usize,
    to: usize,
}

/// Maximum number of launches that are being measured.
const MAX_PENDING: usize = 2;

/// Shortest duration of some launches.
#[derive(Debug, Default)]
pub(in crate::kernel_variants) struct Timing {
    /// Launches that are being measured, in order.
    pending: Vec<Events>,
    /// Shortest so far.
    pub(in crate::kernel_variants) shortest: Option<Duration>,
    /// Number of measured launches.
    pub(in crate::kernel_variants) count: u32,
}

impl Events {
    /// Creates events in the current context.
    pub(in crate::kernel_variants) fn new() -> Option<Self> {
        calls::with_relaxed_capture(|| {
            let (mut from, mut to) = (0, 0);
            if calls::create_event(&mut from, 0) != Some(0) {
                return None;
            }
            if calls::create_event(&mut to, 0) != Some(0) {
                let _ = calls::destroy_event(from);
                return None;
            }
            Some(Self { from, to })
        })
    }

    /// Makes a launch between the events. Returns its code, and whether both are in the stream.
    pub(in crate::kernel_variants) fn measure(
        &self,
        stream: Stream,
        call: impl FnOnce() -> u32,
    ) -> (u32, bool) {
        let is_begun = self.begin(stream);
        let code = call();
        (code, self.end(stream) && is_begun)
    }

    pub(in crate::kernel_variants) fn begin(&self, stream: Stream) -> bool {
        calls::record_event(self.from, stream.0) == Some(0)
    }

    pub(in crate::kernel_variants) fn end(&self, stream: Stream) -> bool {
        calls::record_event(self.to, stream.0) == Some(0)
    }

    pub(in crate::kernel_variants) fn destroy(self) {
        let _ = calls::destroy_event(self.from);
        let _ = calls::destroy_event(self.to);
    }
}

impl Timing {
    /// Returns whether no launch is being measured. Takes over those that have ended.
    pub(in crate::kernel_variants) fn is_free(&mut self) -> bool {
        while let Some(events) = self.pending.first().copied() {
            // A query breaks captures of other threads otherwise.
            match calls::with_relaxed_capture(|| calls::query_event(events.to)) {
                Some(600) => return false,
                Some(0) => self.take_over(events),
                _ => {}
            }
            self.pending.remove(0);
            events.destroy();
        }
        true
    }

    fn take_over(&mut self, events: Events) {
        let mut millis = 0.0;
        let code = driver::elapsed(&mut millis, events.from, events.to);
        if code == Some(0) && millis >= 0.0 {
            let duration = Duration::from_secs_f32(millis / 1e3);
            let shortest = self.shortest.map_or(duration, |known| known.min(duration));
            self.shortest = Some(shortest);
            self.count += 1;
        }
    }

    /// Returns the number of launches that have been measured, or are being.
    pub(in crate::kernel_variants) fn begun(&mut self) -> u32 {
        let _ = self.is_free();
        self.count + self.pending.len() as u32
    }

    /// Notes a launch that is between events. A program may be ahead of the device.
    pub(in crate::kernel_variants) fn wait_for(&mut self, events: Events) {
        if self.pending.len() < MAX_PENDING {
            self.pending.push(events);
        } else {
            events.destroy(); // other threads were faster
        }
    }
}
