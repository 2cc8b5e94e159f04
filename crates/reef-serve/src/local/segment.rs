//! Layout of the memory that a client shares with the daemon.
//!
//! ```text
//! 0       requests: Channel       moved by the client
//! 128     answers: Channel        moved by the daemon
//! 256     Slot × slots
//! then    (input, output) × slots, each at a multiple of 64
//! ```
//!
//! Request number n, from [`FIRST`] and wrapping, uses slot n modulo the number of slots, a power
//! of two. Its tensors are in the buffer that the slot names; there are as many buffers as slots.

use super::channel::Channel;
use super::mmap;
use super::slot::{Slot, Tensor};
use crate::error::{Error, Result};
use reef::HostMemory;
use reef_files::Mapping;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Number of the first request: close to the maximum, so that wrapping is common.
pub(super) const FIRST: u32 = u32::MAX - 7;

/// Sizes of the memory, from which all offsets follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) slots: u32,
    pub(super) input: usize,
    pub(super) output: usize,
}

/// Maximum number of bytes of a tensor, so that no offset overflows.
const MAX_TENSOR_BYTES: usize = 1 << 32;

impl Layout {
    /// Refuses invalid values.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub(super) fn check(&self) -> Result<()> {
        let Self { slots, input, output } = *self;
        if slots.is_power_of_two()
            && slots <= 64
            && input <= MAX_TENSOR_BYTES
            && output <= MAX_TENSOR_BYTES
        {
            return Ok(());
        }
        Err(Error::Invalid(format!("layout: invalid {slots} slots of {input} and {output} bytes")))
    }

    fn slot(&self, index: u32) -> usize {
        2 * size_of::<Channel>() + index as usize * size_of::<Slot>()
    }

    fn input(&self, index: u32) -> usize {
        let each = self.input.next_multiple_of(64) + self.output.next_multiple_of(64);
        self.slot(self.slots) + index as usize * each
    }

    fn output(&self, index: u32) -> usize {
        self.input(index) + self.input.next_multiple_of(64)
    }

    /// Size of the whole memory.
    pub(super) fn bytes(&self) -> usize {
        self.input(self.slots)
    }
}

/// The shared memory, with accessors for its parts. A clone is the same memory.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    mapping: Arc<Mapping>,
    layout: Layout,
}

impl Segment {
    /// Creates a segment, and the descriptor for the client.
    ///
    /// # Errors
    ///
    /// Errors of [`mmap::create`].
    pub(super) fn create(layout: Layout) -> Result<(Self, OwnedFd)> {
        layout.check()?;
        let (mapping, fd) = mmap::create(layout.bytes())?;
        let segment = Self { mapping: Arc::new(mapping), layout };
        segment.requests().publish(FIRST);
        segment.answers().publish(FIRST);
        Ok((segment, fd))
    }

    /// Maps the segment of a daemon.
    ///
    /// # Errors
    ///
    /// Errors of [`mmap::open`].
    pub(super) fn open(fd: impl AsFd, layout: Layout) -> Result<Self> {
        layout.check()?;
        Ok(Self { mapping: Arc::new(mmap::open(fd, layout.bytes())?), layout })
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns all of it, for devices to copy tensors from and to.
    pub(super) fn host_memory(&self) -> HostMemory {
        mmap::host_memory(&self.mapping)
    }

    /// Returns the offsets of input and output of each buffer.
    pub(super) fn buffer_offsets(&self) -> Vec<(usize, usize)> {
        let layout = self.layout;
        (0..layout.slots).map(|slot| (layout.input(slot), layout.output(slot))).collect()
    }

    pub(super) fn requests(&self) -> &Channel {
        self.mapping.at(0)
    }

    pub(super) fn answers(&self) -> &Channel {
        self.mapping.at(size_of::<Channel>())
    }

    /// Returns the slot of request number `n`.
    pub(super) fn slot(&self, n: u32) -> &Slot {
        self.mapping.at(self.layout.slot(n % self.layout.slots))
    }

    pub(super) fn input(&self, buffer: u32) -> Tensor<'_> {
        let words = self.layout.input.div_ceil(8);
        Tensor::new(self.mapping.slice(self.layout.input(buffer % self.layout.slots), words))
    }

    pub(super) fn output(&self, buffer: u32) -> Tensor<'_> {
        let words = self.layout.output.div_ceil(8);
        Tensor::new(self.mapping.slice(self.layout.output(buffer % self.layout.slots), words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::slot::MAX_TEXT_LEN;
    use proptest::prelude::*;
    use std::sync::atomic::Ordering::Relaxed;

    fn layout(slots: u32, input: usize, output: usize) -> Layout {
        Layout { slots, input, output }
    }

    #[test]
    fn segment_parts_do_not_overlap() {
        for layout in [layout(1, 4, 4), layout(4, 12_288, 4000), layout(64, 100, 0)] {
            let mut parts: Vec<(usize, usize)> = vec![(0, 2 * size_of::<Channel>())];
            for i in 0..layout.slots {
                parts.push((layout.slot(i), size_of::<Slot>()));
                parts.push((layout.input(i), layout.input));
                parts.push((layout.output(i), layout.output));
            }
            parts.sort();
            assert!(parts.is_sorted_by(|a, b| a.0 + a.1 <= b.0), "{layout:?}");
            assert!(parts.iter().all(|(at, size)| at + size <= layout.bytes()));
            assert!(parts.iter().all(|(at, _)| at % 64 == 0));
        }
    }

    #[test]
    fn long_text_is_truncated_at_a_character() {
        let (segment, _fd) = Segment::create(layout(1, 8, 8)).unwrap();
        let slot = segment.slot(0);
        slot.set_text(&"ä".repeat(100));
        assert_eq!(slot.text(), "ä".repeat(MAX_TEXT_LEN / 2));
        slot.length.store(u32::MAX, Relaxed);
        assert_eq!(slot.text().len(), MAX_TEXT_LEN);
    }

    proptest! {
        #[test]
        fn bytes_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..100), skip in 0usize..4) {
            let (segment, _fd) = Segment::create(layout(2, skip * 8 + bytes.len(), 8)).unwrap();
            segment.input(3).write(skip * 8, &bytes);
            let mut got = vec![0; bytes.len()];
            segment.input(1).read(skip * 8, &mut got);
            prop_assert_eq!(got, bytes);
        }

        #[test]
        fn floats_round_trip(values in prop::collection::vec(-1e9f32..1e9, 0..50)) {
            let (segment, _fd) = Segment::create(layout(1, values.len() * 4, values.len() * 4)).unwrap();
            prop_assert_eq!(segment.output(0).write_floats(values.iter().copied()), values.len());
            let mut got = vec![0.0; values.len()];
            segment.output(0).read_floats(&mut got);
            prop_assert_eq!(got, values);
        }

        #[test]
        fn floats_round_trip_in_two_parts(values in prop::collection::vec(-1e9f32..1e9, 0..50), at in 0usize..26) {
            let (segment, _fd) = Segment::create(layout(1, values.len() * 4, values.len() * 4)).unwrap();
            let (first, last) = values.split_at((at * 2).min(values.len()));
            segment.input(0).copy_floats(0, first);
            segment.input(0).copy_floats(first.len().next_multiple_of(2), last);
            let mut got = vec![0.0; values.len()];
            segment.input(0).read_floats(&mut got);
            prop_assert_eq!(got, values);
        }

        #[test]
        fn random_layout_is_valid_or_refused(slots: u32, input: usize, output: usize) {
            let layout = layout(slots, input, output);
            if layout.check().is_ok() {
                prop_assert!(layout.bytes() >= 2 * size_of::<Channel>());
            }
        }
    }
}
