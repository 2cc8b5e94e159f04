//! Memory of a session that outlives its connections: sent bytes are kept until they are
//! acknowledged, and frames that were received before are dropped.
//!
//! ```text
//! sender:    acknowledged ≤ sent ≤ acknowledged + credit
//! receiver:  each number once, in order
//! ```
//!
//! A batch of frames goes from the writer into the journal as it is. After a cut all batches that
//! the peer has not received whole are sent again, and the peer drops the frames of them that it
//! has.

use crate::error::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// Frames that are written in one go.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    /// Number of the frame after its last one.
    pub(crate) end: u64,
}

/// Batches that the peer has not acknowledged, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    batches: VecDeque<Arc<Batch>>,
    /// Bytes of them.
    bytes: usize,
    /// Buffers to be used again: fresh memory costs a page fault for each of its pages, which takes
    /// longer than copying.
    spare: Vec<Vec<u8>>,
}

/// Capacity above which a buffer is not kept for later, and the maximum number of those kept.
const MAX_SPARE_LEN: usize = (2 << 20) + 4096;
const MAX_SPARE: usize = 12;
/// Capacity of a buffer for messages without payload. Larger ones are given back, one for each
/// small batch, when no payload follows.
const SMALL_LEN: usize = 1 << 20;

impl Journal {
    /// Keeps a batch, and returns a handle of it to send.
    pub(crate) fn keep(&mut self, batch: Batch) -> Arc<Batch> {
        let batch = Arc::new(batch);
        self.bytes += batch.bytes.len();
        self.batches.push_back(batch.clone());
        batch
    }

    /// The peer has all frames before number `until`, of which `sent` have been sent.
    ///
    /// # Errors
    ///
    /// `Protocol` if it claims to have more.
    pub(crate) fn acknowledge(&mut self, until: u64, sent: u64) -> Result<()> {
        if until > sent {
            let text = format!("acknowledgement: must be at most {sent}, got {until}");
            return Err(Error::Protocol(text));
        }
        while self.batches.front().is_some_and(|batch| batch.end <= until) {
            let batch = self.batches.pop_front().expect("it was just there");
            self.bytes -= batch.bytes.len();
            if let Some(batch) = Arc::into_inner(batch)
                && batch.bytes.capacity() <= MAX_SPARE_LEN
                && self.spare.len() < MAX_SPARE
            {
                self.spare.push(batch.bytes);
            }
        }
        Ok(())
    }

    /// Returns the bytes of all batches.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns an empty buffer for what follows a batch of `len` bytes.
    pub(crate) fn buffer(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        if len < SMALL_LEN && buffer.capacity() > SMALL_LEN {
            return Vec::new();
        }
        buffer.clear();
        buffer
    }

    /// Returns what must be sent again, in order.
    pub(crate) fn unacknowledged(&self) -> Vec<Arc<Batch>> {
        self.batches.iter().cloned().collect()
    }
}

/// Frames of one direction since the session began, and their bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Progress {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
}

impl Progress {
    /// Returns whether a session can have come so far.
    pub(crate) fn is_possible(&self) -> bool {
        self.frames < u64::MAX / 2 && self.bytes < u64::MAX / 2
    }
}

/// Count of received frames.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Arrivals {
    next: u64,
}

impl Arrivals {
    /// Returns the number of a frame from its low half, or `None` if it came before.
    ///
    /// # Errors
    ///
    /// `Protocol` if frames before it are missing.
    pub(crate) fn accept(&mut self, low: u32) -> Result<Option<u64>> {
        let ahead = low.wrapping_sub(self.next as u32);
        if ahead == 0 {
            self.next += 1;
            return Ok(Some(self.next - 1));
        }
        if ahead > u32::MAX / 2 {
            return Ok(None);
        }
        let text = format!("frame {low}: must be {}, {ahead} frames are missing", self.next as u32);
        Err(Error::Protocol(text))
    }

    /// Returns whether this is the low half of the next number.
    pub(crate) fn is_next(&self, low: u32) -> bool {
        low == self.next as u32
    }

    /// Goes on with another number.
    pub(crate) fn at(next: u64) -> Self {
        Self { next }
    }

    /// Number of the next frame.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(len: usize, end: u64) -> Batch {
        Batch { bytes: vec![0; len], end }
    }

    #[test]
    fn acknowledged_batches_are_dropped_and_others_kept() {
        let mut journal = Journal::default();
        journal.keep(batch(16, 2));
        journal.keep(batch(32, 5));
        journal.acknowledge(4, 5).unwrap();
        let ends = |journal: &Journal| -> Vec<u64> {
            journal.unacknowledged().iter().map(|batch| batch.end).collect()
        };
        assert_eq!(ends(&journal), [5], "a batch is sent again as a whole");
        assert!(journal.buffer(16).capacity() >= 16, "its buffer is used again");
        journal.acknowledge(3, 5).unwrap();
        assert_eq!(ends(&journal), [5], "an old acknowledgement changes nothing");
        journal.acknowledge(5, 5).unwrap();
        assert!(ends(&journal).is_empty());
        let said = journal.acknowledge(6, 5).unwrap_err().to_string();
        assert!(said.contains("at most 5, got 6"), "{said}");
    }

    #[test]
    fn arrivals_take_each_number_once_and_refuse_gaps() {
        let mut arrivals = Arrivals { next: u64::from(u32::MAX) };
        assert_eq!(arrivals.accept(u32::MAX), Ok(Some(u64::from(u32::MAX))));
        assert_eq!(arrivals.accept(0), Ok(Some(1 << 32)), "numbers go on above 32 bits");
        for old in [u32::MAX, 0, u32::MAX - 5] {
            assert_eq!(arrivals.accept(old), Ok(None));
        }
        let said = arrivals.accept(4).unwrap_err().to_string();
        assert!(said.contains("3 frames are missing"), "{said}");
        assert_eq!(arrivals.next(), (1 << 32) + 1);
    }
}
