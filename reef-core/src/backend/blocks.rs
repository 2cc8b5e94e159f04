//! Blocks of a stopped command that are left, as plain numbers: they outlive the device.

use crate::backend::error::{Error, Result};
use std::ops::Range;

/// Blocks of a command that have not taken effect.
///
/// A [checkpoint](crate::Checkpoint) is a device's own record of them, and ends with the device.
/// These numbers can be stored, and another device of the same kind makes a checkpoint of them:
/// [`Device::blocks`](crate::Device::blocks),
/// [`Device::checkpoint_of`](crate::Device::checkpoint_of).
///
/// ```
/// use reef_core::Blocks;
///
/// let blocks = Blocks::of_indices(9, 0, vec![8, 1, 0, 4, 2])?;
/// assert_eq!(blocks.ranges(), [0..3, 4..5, 8..9]);
/// assert_eq!((blocks.count(), blocks.total()), (5, 9));
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks {
    total: u32,
    node: usize,
    left: Vec<Range<u32>>,
}

impl Blocks {
    /// Blocks `left` of launch `node` of a command that has `total` blocks. All launches before
    /// `node` have finished, and none after it has begun; it is 0 unless the command is a graph.
    ///
    /// # Errors
    ///
    /// `Invalid` if a range is empty, ends behind `total`, or begins before the end of the one
    /// before it.
    pub fn new(total: u32, node: usize, left: Vec<Range<u32>>) -> Result<Self> {
        let mut end = 0;
        for range in &left {
            if range.start < end || range.is_empty() || range.end > total {
                let (from, to) = (range.start, range.end);
                return Err(Error::invalid(
                    "blocks",
                    format!(
                        "must be ranges in order, from {end} on and within {total}, \
                         got {from}..{to}"
                    ),
                ));
            }
            end = range.end;
        }
        Ok(Self { total, node, left })
    }

    /// As [`new`](Self::new), of single blocks in any order.
    ///
    /// # Errors
    ///
    /// `Invalid` if a block is given twice or is not below `total`.
    pub fn of_indices(total: u32, node: usize, mut indices: Vec<u32>) -> Result<Self> {
        indices.sort_unstable();
        let mut left: Vec<Range<u32>> = Vec::new();
        for index in indices {
            match left.last_mut().filter(|last| last.end == index) {
                Some(last) => last.end = index.saturating_add(1),
                None => left.push(index..index.saturating_add(1)),
            }
        }
        Self::new(total, node, left)
    }

    /// Blocks of the whole command.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// The launch of a graph that these blocks are of; 0 for any other command.
    pub fn node(&self) -> usize {
        self.node
    }

    /// The blocks, in order. No two ranges overlap.
    pub fn ranges(&self) -> &[Range<u32>] {
        &self.left
    }

    /// Number of blocks that are left of launch [`node`](Self::node).
    pub fn count(&self) -> u32 {
        self.left.iter().map(|range| range.end - range.start).sum()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ranges_must_be_in_order_and_inside() {
        assert_eq!(Blocks::new(9, 0, vec![0..2, 2..3, 7..9]).expect("in order").count(), 5);
        let wrong: [&[[u32; 2]]; 5] =
            [&[[0, 0]], &[[3, 2]], &[[7, 10]], &[[4, 6], [5, 7]], &[[4, 6], [0, 1]]];
        for wrong in wrong {
            let wrong: Vec<_> = wrong.iter().map(|[first, end]| *first..*end).collect();
            let said = Blocks::new(9, 0, wrong.clone()).expect_err("refused").to_string();
            assert!(said.starts_with("blocks: must be ranges in order"), "{wrong:?}: {said}");
        }
    }

    #[test]
    fn single_blocks_become_ranges() {
        let blocks = Blocks::of_indices(9, 0, vec![8, 1, 0, 4, 2]).expect("each once");
        assert_eq!(blocks.ranges(), [0..3, 4..5, 8..9]);
        assert!(Blocks::of_indices(9, 0, vec![4, 4]).is_err(), "twice");
        assert!(Blocks::of_indices(9, 0, vec![9]).is_err(), "behind the last");
        assert!(Blocks::of_indices(u32::MAX, 0, vec![u32::MAX]).is_err(), "the largest number");
    }
}
