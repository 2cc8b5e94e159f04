//! Blocks of a launch that remain: ranges, and lists that the device wrote when it stopped them.

use crate::driver::context::Context;
use crate::driver::handles::cloned;
use crate::hal::calls::Vendor;
use crate::launch::stop_lists::StopList;
use reef_core::{Blocks, Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Blocks that run with one launch.
#[derive(Debug)]
pub(crate) struct Segment<V: Vendor> {
    /// Holds their numbers, from entry `first` on; or they are `first` and on.
    pub(crate) list: Option<Arc<StopList<V>>>,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

impl<V: Vendor> Clone for Segment<V> {
    fn clone(&self) -> Self {
        Self { list: self.list.clone(), ..*self }
    }
}

impl<V: Vendor> Segment<V> {
    /// Splits the blocks into parts of at most `most`.
    pub(crate) fn parts(&self, most: u32) -> impl Iterator<Item = Self> + '_ {
        let starts = (0..self.count).step_by(most.max(1) as usize);
        starts.map(move |start| Self {
            list: self.list.clone(),
            first: self.first + start,
            count: most.min(self.count - start),
        })
    }
}

/// The blocks of one launch, or of a graph, that have not taken effect.
#[derive(Debug)]
pub struct Checkpoint<V: Vendor>(Arc<Inner<V>>);

cloned!(Checkpoint);

#[derive(Debug)]
struct Inner<V: Vendor> {
    total: u32,
    /// First launch of a graph that has something left.
    node: usize,
    /// Blocks that this launch has left.
    segment: Segment<V>,
    /// Blocks that were left when this was made.
    left: u32,
    /// Blocks of `left` that have run since, or whose rest is in a newer checkpoint.
    retired: AtomicU32,
}

impl<V: Vendor> Checkpoint<V> {
    /// All of `total` blocks.
    pub(crate) fn new(total: u32) -> Self {
        Self::of(total, 0, whole(total), 0)
    }

    /// The blocks in `segment` of launch `node`, and `later` blocks of launches after it.
    pub(crate) fn of(total: u32, node: usize, segment: Segment<V>, later: u32) -> Self {
        let (left, retired) = (segment.count + later, AtomicU32::new(0));
        Self(Arc::new(Inner { total, node, segment, left, retired }))
    }

    /// See [`reef_core::Device::blocks`].
    pub(crate) fn blocks(&self) -> Result<Blocks> {
        let Inner { total, node, segment, retired, .. } = &*self.0;
        if retired.load(Ordering::Acquire) > 0 {
            return Err(Error::State("reading the blocks of a launch that runs"));
        }
        let &Segment { first, count, .. } = segment;
        let indices = match &segment.list {
            None => (first..first + count).collect(),
            Some(list) => list.blocks(first, count)?,
        };
        Blocks::of_indices(*total, *node, indices)
    }

    /// Of a command with these launches, of which `blocks` are left of one and all of those after
    /// it. `Invalid` if it has no such blocks.
    pub(crate) fn of_blocks(
        context: &Arc<Context<V>>,
        launches: impl Iterator<Item = u32>,
        blocks: &Blocks,
    ) -> Result<Self> {
        let launches: Vec<u32> = launches.collect();
        let total: u32 = launches.iter().sum();
        let own = launches.get(blocks.node()).copied().unwrap_or_default();
        let end = blocks.ranges().last().map_or(0, |range| range.end);
        if blocks.total() != total || end > own || blocks.node() >= launches.len() {
            let (have, node) = (blocks.total(), blocks.node());
            let text = format!(
                "{}: blocks up to {end} of launch {node} of a command of {have}, \
                                for one of {total}",
                V::NAME
            );
            return Err(Error::Invalid(text));
        }
        let later = launches[blocks.node() + 1..].iter().sum();
        let segment = match blocks.ranges() {
            [] => Segment { list: None, first: 0, count: 0 },
            [range] => Segment { list: None, first: range.start, count: range.end - range.start },
            ranges => {
                let indices: Vec<u32> = ranges.iter().cloned().flatten().collect();
                let list = Some(Arc::new(StopList::of(context, &indices)?));
                Segment { list, first: 0, count: indices.len() as u32 }
            }
        };
        Ok(Self::of(total, blocks.node(), segment, later))
    }

    /// Blocks of the launch that it is for.
    pub(crate) fn total(&self) -> u32 {
        self.0.total
    }

    /// The first launch of the graph that has something left.
    pub(crate) fn node(&self) -> usize {
        self.0.node
    }

    /// Blocks that this launch has left.
    pub(crate) fn segment(&self) -> &Segment<V> {
        &self.0.segment
    }

    /// Blocks of all launches after that one.
    pub(crate) fn later_blocks(&self) -> u32 {
        self.0.left - self.0.segment.count
    }

    /// `count` blocks have run, or are in a newer checkpoint.
    pub(crate) fn retire(&self, count: u32) {
        self.0.retired.fetch_add(count, Ordering::AcqRel);
    }
}

/// All blocks of a launch.
pub(crate) fn whole<V: Vendor>(total: u32) -> Segment<V> {
    Segment { list: None, first: 0, count: total }
}

impl<V: Vendor> reef_core::Checkpoint for Checkpoint<V> {
    fn remaining(&self) -> u32 {
        self.0.left - self.0.retired.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::fake::Fake;
    use reef_core::Checkpoint as _;

    #[test]
    fn a_narrow_queue_runs_a_few_blocks_at_a_time() {
        let segment = Segment::<Fake> { list: None, first: 5, count: 10 };
        let parts: Vec<_> = segment.parts(4).map(|part| (part.first, part.count)).collect();
        assert_eq!(parts, [(5, 4), (9, 4), (13, 2)]);
        assert_eq!(segment.parts(u32::MAX).count(), 1);
    }

    #[test]
    fn blocks_that_ran_since_do_not_remain() {
        let segment = Segment::<Fake> { list: None, first: 0, count: 7 };
        let checkpoint = Checkpoint::of(20, 2, segment, 5);
        assert_eq!(checkpoint.remaining(), 12);
        checkpoint.retire(4);
        assert_eq!((checkpoint.remaining(), checkpoint.total()), (8, 20));
    }
}
