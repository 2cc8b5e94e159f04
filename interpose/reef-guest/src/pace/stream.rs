//! Counts of one stream of a guest.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Launches from one mark to the next.
pub const MARK_EVERY: u32 = 64;

/// Maximum launches in flight on a stream, before the next mark, while its gate is open. The
/// driver's queue has about 1,024 entries, and each launch may have a gate and a mark.
pub const MAX_AHEAD: u32 = 256;

/// Maximum launches in flight on a stream while its gate is closed.
pub const MAX_AHEAD_HELD: u32 = 64;

/// Small kernels from one gate to the next inside a graph. A kernel takes about 2 µs there, and a
/// gate 3 µs (H200, ResNet-18 by PyTorch); with 48, an open graph of ResNet-50 took 3.6 % longer.
const GRAPH_APART: u32 = 72;

/// About the number of blocks that a large device runs at a time: a kernel with more of them counts
/// as more than one.
const WAVE: u64 = 512;

/// Counts of one stream. Several threads may launch on it; a race among them shifts a gate by a
/// launch.
#[derive(Debug)]
pub struct Stream {
    /// Launches so far; wraps.
    issued: AtomicU32,
    /// Value of `issued` at the last mark.
    marked: AtomicU32,
    /// Value of `issued` when a thread last waited for all launches.
    synced: AtomicU32,
    /// Polls since the last mark that didn't find it.
    missed: AtomicU32,
    /// Launches since the last gate.
    since_gate: AtomicU32,
    /// The capture that `captured` counts.
    capture: AtomicU64,
    captured: AtomicU32,
}

impl Stream {
    /// Creates a stream without launches.
    pub const fn new() -> Self {
        Self {
            issued: AtomicU32::new(0),
            marked: AtomicU32::new(0),
            synced: AtomicU32::new(0),
            missed: AtomicU32::new(0),
            since_gate: AtomicU32::new(0),
            capture: AtomicU64::new(0),
            captured: AtomicU32::new(0),
        }
    }

    /// Returns whether the next launch needs a gate before it.
    pub fn needs_gate(&self, is_closed: bool, apart: u32) -> bool {
        let since = self.since_gate.load(Relaxed);
        is_closed || since == 0 || since >= apart
    }

    /// Notes that a gate was inserted.
    pub fn note_gate(&self) {
        self.since_gate.store(0, Relaxed);
    }

    /// Notes a launch that counts as `weight` launches, such as a graph. `Some`: a mark with this
    /// number is due.
    pub fn note_launch(&self, weight: u32) -> Option<u32> {
        self.note_launch_marking(weight, MARK_EVERY)
    }

    /// Notes a launch as [`note_launch`](Self::note_launch) does, with a mark after every `every`
    /// launches.
    pub fn note_launch_marking(&self, weight: u32, every: u32) -> Option<u32> {
        self.since_gate.fetch_add(weight, Relaxed);
        let issued = self.issued.fetch_add(weight, Relaxed).wrapping_add(weight);
        let since = issued.wrapping_sub(self.marked.load(Relaxed));
        (since >= every).then(|| self.mark(issued))
    }

    /// Returns the number of a mark for all launches so far, if some are without one.
    pub fn mark_rest(&self) -> Option<u32> {
        let issued = self.issued.load(Relaxed);
        (issued != self.marked.load(Relaxed)).then(|| self.mark(issued))
    }

    /// Returns the number of a due mark, for a poll that found the stream at work at the mark
    /// `done`. If the last mark doesn't come, it is due once more: an older mark may have
    /// overwritten it, put in late by another thread or left by the stream that had this slot
    /// before. That is after 2, 4, 8 polls and so on, because the work may just take long.
    pub fn mark_again(&self, done: u32) -> Option<u32> {
        let rest = self.mark_rest();
        if rest.is_some() || done == self.issued.load(Relaxed) {
            return rest;
        }
        let missed = self.missed.fetch_add(1, Relaxed).saturating_add(1);
        (missed > 1 && missed.is_power_of_two()).then(|| self.marked.load(Relaxed))
    }

    fn mark(&self, issued: u32) -> u32 {
        self.marked.store(issued, Relaxed);
        self.missed.store(0, Relaxed);
        issued
    }

    /// Launches so far; wraps.
    pub fn issued(&self) -> u32 {
        self.issued.load(Relaxed)
    }

    /// Notes that all launches up to this number have ended, because the program waited for them.
    pub fn note_sync(&self, issued: u32) {
        self.synced.store(issued, Relaxed);
    }

    /// Returns whether all launches have ended, as the mark `done` and the program's own waiting
    /// show.
    pub fn is_idle(&self, done: u32) -> bool {
        let issued = self.issued.load(Relaxed);
        done == issued || self.synced.load(Relaxed) == issued
    }

    /// Returns whether the next launch has to wait until the device has come further than the mark
    /// `done`.
    pub fn is_far_ahead(&self, done: u32, is_closed: bool) -> bool {
        self.is_ahead(done, if is_closed { MAX_AHEAD_HELD } else { MAX_AHEAD })
    }

    /// Returns whether at least `most` launches are in flight, as the mark `done` and the program's
    /// own waiting show.
    pub fn is_ahead(&self, done: u32, most: u32) -> bool {
        let issued = self.issued.load(Relaxed);
        let ahead = |from: u32| issued.wrapping_sub(from);
        // A launch without a mark can't be waited for.
        let unmarked = ahead(self.marked.load(Relaxed));
        ahead(done).min(ahead(self.synced.load(Relaxed))) >= most.max(unmarked + 1)
    }

    /// Notes a launch of `blocks` blocks that is captured into a graph. Returns true if it needs a
    /// gate before it. The positions of gates depend on the capture alone, so that the same program
    /// captured again makes the same graph.
    pub fn note_capture(&self, capture: u64, blocks: u64) -> bool {
        if self.capture.swap(capture, Relaxed) != capture {
            self.captured.store(0, Relaxed);
        }
        let (is_due, after) = in_graph(self.captured.load(Relaxed), blocks);
        self.captured.store(after, Relaxed);
        is_due
    }
}

/// Returns whether a graph's kernel of `blocks` blocks needs a gate before it, with `since` small
/// kernels since the last gate; and the new number of small kernels since the last gate.
pub fn in_graph(since: u32, blocks: u64) -> (bool, u32) {
    let is_due = since >= GRAPH_APART;
    let more = u32::try_from(blocks / WAVE).unwrap_or(u32::MAX).min(GRAPH_APART - 1) + 1;
    (is_due, if is_due { more } else { since.saturating_add(more) })
}

impl Default for Stream {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::spacing::MAX_APART;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gates_and_marks_are_within_their_maximum_distances(
            steps in proptest::collection::vec((any::<bool>(), 1..MAX_APART, 0..4_u32), 1..600)
        ) {
            let stream = Stream::new();
            let (mut done, mut marks, mut since) = (0, Vec::new(), u32::MAX);
            for (is_closed, apart, finished) in steps {
                for mark in marks.drain(..marks.len().min(finished as usize)) { done = mark; }
                if stream.is_far_ahead(done, is_closed) {
                    prop_assert!(!marks.is_empty(), "waits for a mark that was never written");
                    continue;
                }
                if stream.needs_gate(is_closed, apart) { stream.note_gate(); since = 0; }
                prop_assert!(since < MAX_APART, "{since} launches without a gate");
                prop_assert!(!is_closed || since == 0);
                since += 1;
                marks.extend(stream.note_launch(1));
                prop_assert!(stream.issued() - done <= MAX_AHEAD + MARK_EVERY);
            }
        }
    }

    #[test]
    fn stream_is_idle_after_its_mark_or_a_wait() {
        let stream = Stream::new();
        assert!(stream.is_idle(0));
        stream.note_launch(1);
        assert!(!stream.is_idle(0));
        assert_eq!(stream.mark_rest(), Some(1));
        assert_eq!(stream.mark_rest(), None);
        assert!(stream.is_idle(1));
        stream.note_launch(1);
        stream.note_sync(2);
        assert!(stream.is_idle(1));
    }

    #[test]
    fn overwritten_mark_is_due_again() {
        let stream = Stream::new();
        stream.note_launch(1);
        let late = stream.mark_rest().unwrap(); // this thread is held up before it puts it in
        stream.note_launch(1);
        assert_eq!(stream.mark_rest(), Some(2)); // another one puts in its own
        let mut done = late;
        let marks: Vec<_> = (0..40).map(|_| stream.mark_again(done)).collect();
        assert_eq!(marks.iter().flatten().count(), 5, "after 2, 4, 8, 16 and 32 looks");
        assert_eq!(marks[1], Some(2));
        done = 2;
        assert!(stream.is_idle(done) && stream.mark_again(done).is_none());
    }

    #[test]
    fn repeated_capture_has_the_same_gates() {
        let stream = Stream::new();
        let places = |capture, blocks| {
            let is_place = |_: &u32| stream.note_capture(capture, blocks);
            (0..200).filter(is_place).collect::<Vec<_>>()
        };
        let first = places(1, 100);
        assert_eq!(first, [72, 144]);
        assert_eq!(places(2, 100), first);
        assert_eq!(places(3, 3 * WAVE)[..3], [18, 36, 54], "large kernels");
        assert_eq!(places(4, u64::MAX).len(), 199);
    }

    #[test]
    fn heavy_launches_are_marked_sooner_and_numbers_wrap() {
        let stream = Stream::new();
        stream.issued.store(u32::MAX - 20, Relaxed);
        stream.marked.store(u32::MAX - 20, Relaxed);
        stream.synced.store(u32::MAX - 20, Relaxed);
        let marks: Vec<_> = (0..8).filter_map(|_| stream.note_launch(16)).collect();
        assert_eq!(marks, [43, 107]);
        assert!(stream.is_far_ahead(u32::MAX - 20, true) && !stream.is_far_ahead(107, true));
    }
}
