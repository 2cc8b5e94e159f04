//! Guarded commands on their way, and what is left of them when they were stopped.

use crate::hal::calls::Vendor;
use crate::launch::checkpoint::{Checkpoint, Segment};
use crate::launch::graph::{Exec, Graph};
use crate::launch::stop_lists::StopList;
use reef_core::{Error, Launch, Result};
use std::sync::Arc;

/// A guarded command, or what is left of one that resumes.
#[derive(Debug)]
pub(crate) struct InFlight<V: Vendor> {
    pub(crate) seq: u64,
    /// Blocks of the whole command.
    pub(crate) total: u32,
    /// The first launch that is on its way, of a graph; 0 if it is none.
    pub(crate) node: usize,
    /// Blocks of that launch which are, and those of all launches after it.
    pub(crate) blocks: u32,
    pub(crate) later: u32,
    /// List in which all of them note the blocks that were stopped.
    pub(crate) stop_list: Arc<StopList<V>>,
    pub(crate) graph: Option<Graph<V>>,
    /// The prepared graph whose stop list it uses: it must not run again meanwhile.
    pub(crate) exec: Option<Arc<Exec<V>>>,
    /// Checkpoint that it resumes; its launches read that one's lists.
    pub(crate) checkpoint: Option<Checkpoint<V>>,
}

impl<V: Vendor> InFlight<V> {
    /// Retires its blocks from the checkpoint that it resumes: they have run, or have been stopped
    /// and are in another checkpoint now.
    pub(crate) fn retire(&self) {
        if let Some(checkpoint) = &self.checkpoint {
            checkpoint.retire(self.blocks + self.later);
        }
    }

    /// The rest of it, of which `count` blocks were stopped.
    ///
    /// # Errors
    ///
    /// `State` if it doesn't have as many.
    pub(crate) fn remainder(&self, count: u32) -> Result<Remainder<V>> {
        let (node, later) = self.first_stopped(count);
        let left = count - later;
        let have = if node == self.node { self.blocks } else { left };
        if left > have {
            return Err(Error::state(
                "draining a queue",
                "more blocks were stopped than a command has",
            ));
        }
        let list = Some(self.stop_list.clone());
        let segment = Segment { list, first: 0, count: left };
        Ok(Remainder { seq: self.seq, node, total: self.total, segment, later })
    }

    /// The launch that the first of `count` stopped blocks are of, and how many are of launches
    /// after it: those are whole, as launches run in order.
    fn first_stopped(&self, count: u32) -> (usize, u32) {
        let launches = self.graph.as_ref().map_or(&[][..], Graph::launches);
        let mut later = 0;
        for (node, blocks) in
            launches.iter().map(Launch::blocks).enumerate().skip(self.node + 1).rev()
        {
            if count - later <= blocks {
                return (node, later);
            }
            later += blocks;
        }
        (self.node, later)
    }

    /// Checks that nothing of it ran, behind a command that was stopped.
    ///
    /// # Errors
    ///
    /// `State`.
    pub(crate) fn check_void(&self, count: u32) -> Result<()> {
        if count == self.blocks + self.later {
            Ok(())
        } else {
            Err(Error::state("draining a queue", "a kernel ran behind one that was stopped"))
        }
    }
}

/// The first command of which something was stopped.
#[derive(Debug)]
pub(crate) struct Remainder<V: Vendor> {
    pub(crate) seq: u64,
    node: usize,
    total: u32,
    /// Blocks of its launch `node`.
    segment: Segment<V>,
    /// Number of blocks of its launches after that.
    later: u32,
}

impl<V: Vendor> Remainder<V> {
    /// The rest of it; `None` if it is launched anew instead.
    ///
    /// Where running blocks stop, that is never so: the lists say how often each block was stopped
    /// midway, and a kernel of one wave would start from zero each time that all of its blocks
    /// stop.
    pub(crate) fn partial(self, running_blocks_stop: bool) -> Option<Checkpoint<V>> {
        let is_all = self.segment.count + self.later == self.total;
        (running_blocks_stop || !is_all)
            .then(|| Checkpoint::of(self.total, self.node, self.segment, self.later))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Gpu;
    use crate::hal::fake::Fake;
    use crate::hal::options::Options;
    use crate::launch::stop_lists::StopLists;
    use reef_core::{Args, Checkpoint as _, Command, Device};

    const TOTAL: u32 = 10;

    fn gpu() -> Gpu<Fake> {
        Gpu::new(Fake::default(), Options::default()).unwrap()
    }

    /// Command 3, of which `blocks` blocks of launch `node` are on their way and all of those after
    /// it.
    fn command(graph: Option<Graph<Fake>>, node: usize, blocks: u32) -> InFlight<Fake> {
        let launches = graph.as_ref().map_or(&[][..], Graph::launches);
        let later = launches.iter().skip(node + 1).map(Launch::blocks).sum();
        let total = graph.as_ref().map_or(TOTAL, Graph::blocks);
        let stop_list = StopLists::new(gpu().context()).unwrap().take(total).unwrap();
        let (exec, checkpoint) = (None, None);
        InFlight { seq: 3, total, node, blocks, later, stop_list, graph, exec, checkpoint }
    }

    /// Blocks that the first launch with something left has.
    fn first(left: &Checkpoint<Fake>) -> u32 {
        left.settled().unwrap().iter().map(|segment| segment.count).sum()
    }

    fn graph(blocks: &[u32]) -> Graph<Fake> {
        let gpu = gpu();
        let launch = |&blocks: &u32| {
            let kernel = gpu.kernel("append").unwrap();
            // SAFETY: nothing runs.
            let launch =
                unsafe { Launch::new(kernel, [blocks, 1, 1], [32, 1, 1], Args::new(&[0; 3])) };
            Command::Launch(launch)
        };
        Graph::new(&gpu, &blocks.iter().map(launch).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn stopped_launch_leaves_those_after_it_whole() {
        let blocks = [4, 1, 3, 2];
        for stopped in 1..=TOTAL {
            let left = command(Some(graph(&blocks)), 0, 4).remainder(stopped).unwrap();
            let left = left.partial(true).unwrap();
            let (node, first) = (left.node(), first(&left));
            assert_eq!(left.remaining(), stopped);
            assert_eq!(first + blocks[node + 1..].iter().sum::<u32>(), stopped);
            assert!((1..=blocks[node]).contains(&first), "{first} of launch {node}");
        }
    }

    #[test]
    fn command_that_resumes_has_no_more_than_was_left() {
        let resumed = || command(Some(graph(&[4, 3, 3])), 1, 2);
        let left = resumed().remainder(5).unwrap().partial(true).unwrap();
        assert_eq!((left.node(), first(&left)), (1, 2));
        for (command, count) in [(resumed(), 6), (command(None, 0, 4), 5)] {
            let error = command.remainder(count).unwrap_err();
            assert!(matches!(error, Error::State { .. }), "{error}");
        }
    }

    #[test]
    fn command_behind_a_stopped_one_must_not_have_run() {
        let behind = command(Some(graph(&[4, 3, 3])), 0, 4);
        assert_eq!(behind.check_void(10), Ok(()));
        assert!(matches!(behind.check_void(9), Err(Error::State { .. })));
    }

    #[test]
    fn whole_launch_is_partial_only_if_running_blocks_stop() {
        let all = || command(None, 0, TOTAL).remainder(TOTAL).unwrap();
        assert!(all().partial(false).is_none());
        assert_eq!(all().partial(true).unwrap().remaining(), TOTAL);
    }

    #[test]
    fn a_launch_that_ended_is_no_longer_left_in_what_it_resumes() {
        let checkpoint = Checkpoint::new(TOTAL);
        let ended = InFlight { checkpoint: Some(checkpoint.clone()), ..command(None, 0, 4) };
        ended.retire();
        assert_eq!(checkpoint.remaining(), TOTAL - 4);
    }
}
