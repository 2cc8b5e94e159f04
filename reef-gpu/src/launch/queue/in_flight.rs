//! Guarded launches on their way, and what is left of them when they were stopped.

use crate::launch::checkpoint::{Checkpoint, Segment};
use crate::launch::graph::Exec;
use crate::launch::stop_lists::StopList;
use crate::vendor::calls::Vendor;
use reef_core::{Error, Result};
use std::sync::Arc;

/// A guarded launch, or a part of one that resumes.
#[derive(Debug)]
pub(crate) struct InFlight<V: Vendor> {
    pub(crate) seq: u64,
    /// Which launch of a graph; 0 if it is none.
    pub(crate) node: usize,
    /// Blocks of the whole command, and of this launch.
    pub(crate) total: u32,
    pub(crate) blocks: u32,
    pub(crate) stop_list: Arc<StopList<V>>,
    /// What must outlive it.
    pub(crate) source: Source<V>,
    /// What it resumes.
    pub(crate) checkpoint: Option<Checkpoint<V>>,
}

/// Where a launch comes from.
#[derive(Debug)]
pub(crate) enum Source<V: Vendor> {
    /// It reads this list, and has a stop list of its own.
    Segment(#[allow(dead_code)] Segment<V>),
    /// It is part of a graph, whose stop list it uses: the graph must not run again meanwhile.
    Graph(#[allow(dead_code)] Arc<Exec<V>>),
}

impl<V: Vendor> InFlight<V> {
    /// Its blocks have run, or have been stopped and are in another checkpoint now.
    pub(crate) fn retire(&self) {
        if let Some(checkpoint) = &self.checkpoint {
            checkpoint.retire(self.blocks);
        }
    }
}

/// The first command of which something was stopped.
pub(crate) struct Remainder<V: Vendor> {
    pub(crate) seq: u64,
    pub(crate) node: usize,
    pub(crate) total: u32,
    /// Of its launch `node`.
    segments: Vec<Segment<V>>,
    left: u32,
    /// Of its launches after that.
    later: u32,
}

impl<V: Vendor> Remainder<V> {
    pub(crate) fn new(first: &InFlight<V>, count: u32) -> Self {
        let &InFlight { seq, node, total, .. } = first;
        let mut remainder = Self { seq, node, total, segments: Vec::new(), left: 0, later: 0 };
        remainder.stopped(first, count);
        remainder
    }

    fn stopped(&mut self, launch: &InFlight<V>, count: u32) {
        self.left += count;
        if count > 0 {
            self.segments.push(Segment { list: Some(launch.stop_list.clone()), first: 0, count });
        }
    }

    /// Notes a launch behind the first.
    pub(crate) fn add(&mut self, launch: &InFlight<V>, count: u32) -> Result<()> {
        if (launch.seq, launch.node) == (self.seq, self.node) {
            self.stopped(launch, count); // another part of the same
            return Ok(());
        }
        if launch.seq == self.seq {
            self.later += count;
        }
        if count < launch.blocks {
            return Err(Error::State("a kernel ran behind one that was stopped"));
        }
        Ok(())
    }

    /// What is left of it: `None` if it is launched anew instead.
    ///
    /// Where running blocks stop, that is never so: the lists say how often each block was stopped midway, and a
    /// kernel of one wave would start from zero each time that all of its blocks stop.
    pub(crate) fn partial(self, running_blocks_stop: bool) -> Option<Checkpoint<V>> {
        let is_all = self.left + self.later == self.total;
        (running_blocks_stop || !is_all)
            .then(|| Checkpoint::of(self.total, self.node, self.segments, self.later))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::context::Context;
    use crate::launch::stop_lists::StopLists;
    use crate::vendor::fake::Fake;
    use reef_core::Checkpoint as _;

    const TOTAL: u32 = 10;

    /// A launch of `blocks` blocks, which is launch `node` of command `seq`.
    fn launch(seq: u64, node: usize, blocks: u32) -> InFlight<Fake> {
        let context = Arc::new(Context::new(Fake::default()));
        let stop_list = StopLists::new(&context).unwrap().take(blocks).unwrap();
        let source = Source::Segment(Segment { list: None, first: 0, count: blocks });
        InFlight { seq, node, total: TOTAL, blocks, stop_list, source, checkpoint: None }
    }

    fn counts(checkpoint: &Checkpoint<Fake>) -> Vec<u32> {
        checkpoint.segments().iter().map(|segment| segment.count).collect()
    }

    #[test]
    fn of_a_launch_in_parts_each_leaves_what_was_stopped() {
        let mut remainder = Remainder::new(&launch(3, 0, 4), 2);
        remainder.add(&launch(3, 0, 4), 0).unwrap();
        remainder.add(&launch(3, 0, 2), 1).unwrap();
        let left = remainder.partial(true).unwrap();
        assert_eq!((left.remaining(), counts(&left)), (3, vec![2, 1]));
    }

    #[test]
    fn launches_of_the_graph_behind_it_are_left_whole() {
        let mut remainder = Remainder::new(&launch(3, 1, 4), 1);
        remainder.add(&launch(3, 2, 3), 3).unwrap();
        let left = remainder.partial(true).unwrap();
        assert_eq!((left.node(), left.remaining(), counts(&left)), (1, 4, vec![1]));
    }

    #[test]
    fn commands_behind_it_are_not_part_of_it() {
        let mut remainder = Remainder::new(&launch(3, 0, TOTAL), 4);
        remainder.add(&launch(4, 0, TOTAL), TOTAL).unwrap();
        assert_eq!((remainder.seq, remainder.partial(true).unwrap().remaining()), (3, 4));
    }

    #[test]
    fn what_ran_behind_a_stopped_launch_is_an_error() {
        for (seq, node) in [(3, 1), (4, 0)] {
            let mut remainder = Remainder::new(&launch(3, 0, 4), 1);
            let error = remainder.add(&launch(seq, node, 4), 3).unwrap_err();
            assert!(matches!(error, Error::State(_)), "{error}");
        }
    }

    #[test]
    fn that_all_is_left_matters_where_running_blocks_stop() {
        let all = || Remainder::new(&launch(3, 0, TOTAL), TOTAL);
        assert!(all().partial(false).is_none());
        assert_eq!(all().partial(true).unwrap().remaining(), TOTAL);
    }

    #[test]
    fn a_launch_that_ended_is_no_longer_left_in_what_it_resumes() {
        let checkpoint = Checkpoint::new(TOTAL);
        let ended = InFlight { checkpoint: Some(checkpoint.clone()), ..launch(3, 0, 4) };
        ended.retire();
        assert_eq!(checkpoint.remaining(), TOTAL - 4);
    }
}
