//! Which blocks of a launch remain: ranges, and lists that the device wrote when it stopped them.

use crate::pads::Pads;
use crate::slots::Slot;
use parking_lot::Mutex;
use std::sync::Arc;

/// Blocks that run with one launch.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    /// Holds their numbers, from entry `first` on; or they are `first` and on.
    pub(crate) list: Option<Arc<Slot>>,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

impl Segment {
    /// The same blocks, at most `most` of them in each part.
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
#[derive(Debug, Clone)]
pub struct Record(Arc<Mutex<Left>>);

#[derive(Debug)]
struct Left {
    total: u32,
    /// Of a graph: which of its launches is the first that has something left.
    node: usize,
    /// Of a graph: blocks of the launches after that one.
    later: u32,
    segments: Vec<Segment>,
    /// Blocks that are with the device.
    lent: u32,
    /// Who has them as padding, from which some may come back.
    lender: Option<Pads>,
}

impl Record {
    /// All of `total` blocks.
    pub(crate) fn new(total: u32) -> Self {
        Self::of(total, 0, vec![whole(total)], 0)
    }

    /// What `segments` hold of launch `node`, and `later` blocks of launches after it.
    pub(crate) fn of(total: u32, node: usize, segments: Vec<Segment>, later: u32) -> Self {
        Self(Arc::new(Mutex::new(Left { total, node, later, segments, lent: 0, lender: None })))
    }

    /// Blocks of the launch that it is for.
    pub(crate) fn total(&self) -> u32 {
        self.0.lock().total
    }

    /// The first launch of the graph that has something left.
    pub(crate) fn node(&self) -> usize {
        self.0.lock().node
    }

    /// Takes all of that launch that is not with the device; it remains until it is settled.
    pub(crate) fn take(&self) -> Vec<Segment> {
        let mut left = self.0.lock();
        let all = std::mem::take(&mut left.segments);
        left.lent += all.iter().map(|segment| segment.count).sum::<u32>();
        all
    }

    /// Takes up to `most` blocks that run together; they count as remaining until they are settled.
    pub(crate) fn lend(&self, most: u32, lender: &Pads) -> Option<Segment> {
        let lent = self.0.lock().lend(most)?;
        self.0.lock().lender = Some(lender.clone());
        Some(lent)
    }

    /// `count` blocks that were lent are done with; those in `back` were stopped.
    pub(crate) fn settle(&self, count: u32, back: Option<Segment>) {
        self.0.lock().settle(count, back);
    }

    /// Has whoever has blocks of it settle what can be settled.
    fn collect(&self) {
        let lender = self.0.lock().lender.clone(); // which locks this in turn
        if let Some(lender) = lender {
            let _ = lender.collect(); // a lost device shows at the queues
        }
    }
}

impl Left {
    fn lend(&mut self, most: u32) -> Option<Segment> {
        let segment = self.segments.last_mut()?;
        let count = segment.count.min(most);
        segment.count -= count;
        let lent = Segment { first: segment.first + segment.count, count, ..segment.clone() };
        if segment.count == 0 {
            self.segments.pop();
        }
        self.lent += count;
        Some(lent)
    }

    fn settle(&mut self, count: u32, back: Option<Segment>) {
        self.lent -= count;
        self.segments.extend(back);
        if self.lent == 0 {
            self.lender = None;
        }
    }

    fn remaining(&self) -> u32 {
        self.lent + self.later + self.segments.iter().map(|segment| segment.count).sum::<u32>()
    }
}

/// All blocks of a launch.
pub(crate) fn whole(total: u32) -> Segment {
    Segment { list: None, first: 0, count: total }
}

impl reef_core::Record for Record {
    fn remaining(&self) -> u32 {
        let all_lent = |left: &Left| left.lent > 0 && left.segments.is_empty();
        if all_lent(&self.0.lock()) {
            self.collect();
        }
        self.0.lock().remaining()
    }

    fn is_lent(&self) -> bool {
        self.collect();
        self.0.lock().lender.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_queue_runs_a_few_blocks_at_a_time() {
        let segment = Segment { list: None, first: 5, count: 10 };
        let parts: Vec<_> = segment.parts(4).map(|part| (part.first, part.count)).collect();
        assert_eq!(parts, [(5, 4), (9, 4), (13, 2)]);
        assert_eq!(segment.parts(u32::MAX).count(), 1);
    }

    #[test]
    fn what_is_lent_remains_until_it_is_settled() {
        let mut left =
            Left { total: 10, node: 0, later: 0, segments: vec![whole(10)], lent: 0, lender: None };
        let lent = left.lend(4).unwrap();
        assert_eq!((lent.first, lent.count), (6, 4));
        assert_eq!((left.remaining(), left.lent), (10, 4));
        left.settle(4, Some(Segment { count: 1, ..lent }));
        assert_eq!((left.remaining(), left.lent), (7, 0));
        let counts: Vec<u32> = std::iter::from_fn(|| left.lend(5)).map(|s| s.count).collect();
        assert_eq!(counts, [1, 5, 1]);
    }
}
