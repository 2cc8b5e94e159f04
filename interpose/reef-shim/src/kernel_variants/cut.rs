//! Cut of a launch: slices of about 200 µs, or longer ones whose blocks can leave.

use crate::stops::number::SLICES;
use crate::stops::sliced_stream::Group;
use reef_ptx::variant::{Launched, Slice, slices};
use std::time::Duration;

/// Duration that a slice should have: about the time for which real-time work waits.
const SLICE: Duration = Duration::from_micros(200);
/// Maximum number of slices of a launch. All fit into the driver's queue with their gates, so the
/// launch doesn't wait for the device. Those that can be stopped have four entries each there.
const MAX_SLICES: u32 = 240;
const MAX_STOPPED_SLICES: u32 = 160;
/// Maximum number of slices of a graph's node. A slice and its gate take 6 to 11 µs on an H200, and
/// memory of the driver as long as the graph is there.
pub(super) const MAX_NODE_SLICES: u32 = 64;
/// Entries of all slices that can be stopped, at most.
pub(super) const MAX_ENTRIES: usize = 720;
/// Waves of a slice that can be stopped. A wave leaves in about a microsecond.
const WAVES: u32 = 50;
/// Longest slice that can be stopped: a group has three resumes.
const MAX_STOPPED: Duration = Duration::from_millis(10);
/// Blocks from this duration on check whether they are to leave. Three resumes that do nothing take
/// 4 % of it.
const MIN_BLOCK: Duration = Duration::from_micros(50);

/// Blocks from this duration on may be thrown away while they run, before they have an effect. On
/// average half of a block is lost.
const MIN_MEASURED: Duration = Duration::from_millis(1);

/// Places where the blocks of a kernel may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopKind {
    Never,
    BeforeBlocks,
    /// Also inside of blocks that run.
    InBlocks,
}

/// Launch with what is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) grid: [u32; 3],
    /// Blocks that the device runs at a time.
    pub(super) wave: u64,
    /// Duration of the plain kernel.
    pub(super) plain: Duration,
}

impl Measured {
    pub(super) fn blocks(&self) -> u64 {
        count(self.grid)
    }

    /// Returns how long a block takes.
    fn block(&self) -> Duration {
        let waves = self.blocks().div_ceil(self.wave.max(1)).max(1) as f64;
        self.plain.div_f64(waves)
    }

    /// Returns how long a slice should be whose blocks can leave.
    fn stopped_slice(&self) -> Duration {
        (self.block() * WAVES).min(MAX_STOPPED)
    }

    /// Returns where its blocks should be able to leave.
    pub(super) fn stops(&self) -> StopKind {
        match self.block() {
            block if block >= MIN_MEASURED => StopKind::InBlocks,
            block if block >= MIN_BLOCK && self.blocks() > self.wave => StopKind::BeforeBlocks,
            _ => StopKind::Never,
        }
    }

    /// Cuts the launch into slices that are launched and not stopped.
    ///
    /// # Errors
    ///
    /// The reason for which it has none.
    pub(super) fn slices(&self) -> Result<Vec<Slice>, String> {
        self.cut(SLICE, MAX_SLICES)
    }

    /// Cuts the launch into slices that are nodes of a graph, not more than `most`.
    ///
    /// # Errors
    ///
    /// The reason for which it has none.
    pub(super) fn node_slices(&self, most: u32) -> Result<Vec<Slice>, String> {
        self.cut(SLICE, most.min(MAX_NODE_SLICES))
    }

    /// Cuts the launch into slices that can be stopped, of `most` blocks or fewer. One slice may be
    /// the whole of it, and is if `is_whole`.
    ///
    /// # Errors
    ///
    /// The reason for which it has none.
    pub(super) fn stopped_slices(&self, most: u64, is_whole: bool) -> Result<Vec<Slice>, String> {
        let slice = self.stopped_slice();
        let all = if is_whole || self.plain <= slice {
            vec![Slice { offset: [0; 3], blocks: self.grid }]
        } else {
            self.cut(slice, MAX_STOPPED_SLICES)?
        };
        if all.iter().any(|slice| count(slice.blocks) > most) {
            return Err("its slices have too many blocks".into());
        }
        Ok(all)
    }

    fn cut(&self, slice: Duration, most: u32) -> Result<Vec<Slice>, String> {
        let Self { grid, wave, plain } = *self;
        Ok(slices(&Launched { grid, wave, duration: plain, slice, most })?)
    }
}

/// Puts slices that follow each other together, as long as a group has no more blocks than `most`.
pub(super) fn groups(slices: Vec<Slice>, most: u64) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for slice in slices {
        let grown = groups.last().filter(|group| group.slices.len() < SLICES);
        let grown = grown.and_then(|group| merged(&group.all, &slice));
        match (groups.last_mut(), grown.filter(|all| count(all.blocks) <= most)) {
            (Some(group), Some(all)) => {
                group.all = all;
                group.slices.push(slice);
            }
            _ => groups.push(Group { slices: vec![slice], all: slice }),
        }
    }
    groups
}

/// Returns the number of entries that groups have in the driver's queue: three of each run.
pub(super) fn entries(groups: &[Group]) -> usize {
    groups.iter().map(|group| 3 * (group.slices.len() + 3)).sum()
}

/// Returns the rectangle of two, if they make one and their blocks follow each other in the grid.
fn merged(one: &Slice, other: &Slice) -> Option<Slice> {
    let differing = |at: &usize| one.offset[*at] != other.offset[*at];
    let mut dimensions = (0..3).filter(differing);
    let dimension = dimensions.next().filter(|_| dimensions.next().is_none())?;
    let is_next =
        one.offset[dimension].checked_add(one.blocks[dimension]) == Some(other.offset[dimension]);
    let is_even = (0..3).all(|at| at == dimension || one.blocks[at] == other.blocks[at]);
    let mut all = *one;
    all.blocks[dimension] += other.blocks[dimension];
    (is_next && is_even).then_some(all)
}

fn count(blocks: [u32; 3]) -> u64 {
    blocks.iter().fold(1_u64, |all, side| all.saturating_mul(u64::from(*side)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_rectangles_of_slices_in_a_row() {
        let slice = |offset, blocks| Slice { offset, blocks };
        let line = (0..9).map(|at| slice([10 * at, 0, 0], [10, 1, 1]));
        let all = groups(line.clone().collect(), 1000);
        assert_eq!(all.iter().map(|group| group.slices.len()).collect::<Vec<_>>(), [8, 1]);
        assert_eq!(all[0].all, slice([0; 3], [80, 1, 1]));
        let few = groups(line.collect(), 25);
        assert_eq!(few.iter().map(|group| group.slices.len()).collect::<Vec<_>>(), [2, 2, 2, 2, 1]);
        // The second line begins elsewhere.
        let lines =
            [slice([0, 0, 0], [5, 1, 1]), slice([5, 0, 0], [3, 1, 1]), slice([0, 1, 0], [5, 1, 1])];
        let two = groups(lines.to_vec(), 1000);
        assert_eq!((two.len(), two[0].all), (2, slice([0; 3], [8, 1, 1])));
        let apart = groups(lines.to_vec(), 0);
        assert_eq!(apart.len(), 3, "no groups without stops");
        assert_eq!((entries(&two), entries(&apart)), (27, 36));
    }

    fn measured(grid: [u32; 3], wave: u64, millis: u64) -> Measured {
        Measured { grid, wave, plain: Duration::from_millis(millis) }
    }

    #[test]
    fn blocks_of_a_microsecond_are_not_worth_stops() {
        assert_eq!(measured([1 << 20, 1, 1], 1056, 1).stops(), StopKind::Never);
        assert_eq!(measured([1_320_000, 1, 1], 132, 1000).stops(), StopKind::BeforeBlocks);
        assert_eq!(measured([132, 1, 1], 132, 1000).stops(), StopKind::InBlocks);
        assert_eq!(measured([132, 1, 1], 1320, 1).stops(), StopKind::InBlocks);
    }

    #[test]
    fn slice_that_can_be_stopped_has_fifty_waves() {
        // Blocks of 100 µs.
        let all = measured([264 * 1000, 1, 1], 264, 100).stopped_slices(1 << 16, false).unwrap();
        assert!((18..=22).contains(&all.len()), "{}", all.len());
        let short = measured([264 * 10, 1, 1], 264, 1).stopped_slices(1 << 16, false).unwrap();
        assert_eq!(short, [Slice { offset: [0; 3], blocks: [2640, 1, 1] }]);
    }

    #[test]
    fn node_of_a_graph_has_few_slices() {
        let long = |millis| measured([264 * 1000, 1, 1], 264, millis);
        let count = |millis, most| long(millis).node_slices(most).unwrap().len();
        assert!((4..=6).contains(&count(1, 64)), "{}", count(1, 64));
        assert!((32..=64).contains(&count(1000, 640)), "{}", count(1000, 640));
        assert!((2..=3).contains(&count(1000, 3)), "{}", count(1000, 3));
    }

    #[test]
    fn too_many_blocks_are_not_recorded() {
        let long = measured([264 * 10_000, 1, 1], 264, 1000);
        let all = long.stopped_slices(1 << 16, false).unwrap();
        assert!(all.len() <= 160, "{}", all.len());
        assert!(long.stopped_slices(1 << 16, true).is_err());
    }
}
