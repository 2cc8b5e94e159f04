//! Blocks of a launch that remain: ranges, and lists that the device wrote when it stopped them.

use crate::driver::context::Context;
use crate::driver::handles::cloned;
use crate::driver::signal::HostSignal;
use crate::hal::calls::Vendor;
use crate::launch::stop_lists::StopList;
use parking_lot::Mutex;
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

/// Blocks of a checkpoint that run next to a real-time kernel. The device tells how many of them it
/// stopped; these are in the list then, and nothing writes there any more.
#[derive(Debug)]
pub(crate) struct Pad<V: Vendor> {
    pub(crate) segment: Segment<V>,
    pub(crate) stop_list: Arc<StopList<V>>,
    /// Number of blocks that were stopped, and in the upper half that this has been told.
    answer: HostSignal<V>,
}

impl<V: Vendor> Pad<V> {
    pub(crate) fn new(
        context: &Arc<Context<V>>,
        segment: Segment<V>,
        stop_list: Arc<StopList<V>>,
    ) -> Result<Self> {
        Ok(Self { segment, stop_list, answer: HostSignal::new(context)? })
    }

    /// Addresses for the device's answer: of the number, and of the word to be set to 1 behind it.
    pub(crate) fn answer(&self) -> [u64; 2] {
        let number = self.answer.address();
        [number, number + size_of::<u32>() as u64]
    }

    /// Blocks that were stopped; `None`: some may still run.
    pub(crate) fn stopped(&self) -> Option<u32> {
        let answer = self.answer.get();
        (answer >> 32 != 0).then_some(answer as u32)
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
    rest: Mutex<Rest<V>>,
    /// Blocks of all launches after that one.
    later: u32,
    /// Blocks of those that have run since, or whose rest is in a newer checkpoint.
    retired: AtomicU32,
}

/// Blocks of one launch that are left.
#[derive(Debug)]
struct Rest<V: Vendor> {
    /// No two have a block in common.
    segments: Vec<Segment<V>>,
    /// Blocks that were taken out to run next to real-time kernels, as far as they aren't known to
    /// have ended.
    pads: Vec<Arc<Pad<V>>>,
}

impl<V: Vendor> Rest<V> {
    /// Takes back what was stopped, and drops what has run.
    fn settle(&mut self) {
        let segments = &mut self.segments;
        self.pads.retain(|pad| {
            let Some(count) = pad.stopped() else { return true };
            if count > 0 {
                let list = Some(pad.stop_list.clone());
                segments.push(Segment { list, first: 0, count });
            }
            false
        });
    }

    fn count(&self) -> u32 {
        let pads = self.pads.iter().map(|pad| pad.segment.count);
        self.segments.iter().map(|segment| segment.count).chain(pads).sum()
    }
}

impl<V: Vendor> Checkpoint<V> {
    /// All of `total` blocks.
    pub(crate) fn new(total: u32) -> Self {
        Self::of(total, 0, whole(total), 0)
    }

    /// The blocks in `segment` of launch `node`, and `later` blocks of launches after it.
    pub(crate) fn of(total: u32, node: usize, segment: Segment<V>, later: u32) -> Self {
        let rest = Mutex::new(Rest { segments: vec![segment], pads: Vec::new() });
        Self(Arc::new(Inner { total, node, rest, later, retired: AtomicU32::new(0) }))
    }

    /// See [`reef_core::Device::blocks`].
    pub(crate) fn blocks(&self) -> Result<Blocks> {
        let is_launched = self.0.retired.load(Ordering::Acquire) > 0;
        let segments = self.settled().filter(|_| !is_launched);
        let Some(segments) = segments else {
            return Err(Error::state("reading the blocks of a launch", "it runs"));
        };
        let mut indices = Vec::new();
        for &Segment { ref list, first, count } in &segments {
            match list {
                None => indices.extend(first..first + count),
                Some(list) => indices.extend(list.blocks(first, count)?),
            }
        }
        Blocks::of_indices(self.0.total, self.0.node, indices)
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
            return Err(Error::invalid(
                "blocks",
                format!(
                    "must be of a launch of a command of {total}, \
                     got those up to {end} of launch {node} of one of {have}"
                ),
            ));
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

    /// Checks that it is for a launch of this number of blocks: one outside its kernel's grid must
    /// never run.
    pub(crate) fn check_total(&self, want: u32) -> Result<()> {
        let have = self.0.total;
        if have == want {
            return Ok(());
        }
        Err(Error::invalid(
            "checkpoint",
            format!("must be of a launch of {want} blocks, got {have}"),
        ))
    }

    /// The first launch of the graph that has something left.
    pub(crate) fn node(&self) -> usize {
        self.0.node
    }

    /// Blocks that this launch has left; `None` while some of them run next to real-time work.
    pub(crate) fn settled(&self) -> Option<Vec<Segment<V>>> {
        let mut rest = self.0.rest.lock();
        rest.settle();
        rest.pads.is_empty().then(|| rest.segments.clone())
    }

    /// Takes out up to `most` blocks, to run next to real-time work. Those that were stopped last
    /// come first: few are left in pieces then.
    pub(crate) fn take(&self, most: u32) -> Option<Segment<V>> {
        let mut rest = self.0.rest.lock();
        rest.settle();
        rest.segments.retain(|segment| segment.count > 0);
        let last = rest.segments.last_mut().filter(|_| most > 0)?;
        let count = most.min(last.count);
        let taken = Segment { list: last.list.clone(), first: last.first, count };
        (last.first, last.count) = (last.first + count, last.count - count);
        Some(taken)
    }

    /// Puts back what was taken out and has not been launched.
    pub(crate) fn put_back(&self, segment: Segment<V>) {
        self.0.rest.lock().segments.push(segment);
    }

    /// Notes that blocks that were taken out run, or will.
    pub(crate) fn note_pad(&self, pad: Arc<Pad<V>>) {
        self.0.rest.lock().pads.push(pad);
    }

    /// Blocks of all launches after that one.
    pub(crate) fn later_blocks(&self) -> u32 {
        self.0.later
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
        let mut rest = self.0.rest.lock();
        rest.settle();
        rest.count() + self.0.later - self.0.retired.load(Ordering::Acquire)
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
        assert_eq!(checkpoint.remaining(), 8);
        assert!(checkpoint.check_total(20).is_ok() && checkpoint.check_total(17).is_err());
    }
}
