//! Order in which the steps of a graph are launched, and which of them share a launch.
//!
//! A step's *depth* is the length of the longest chain of steps that it must come behind. Steps of
//! one depth don't depend on each other. Branches are launched by depth: the first steps of all,
//! then the second ones. So steps that can share a launch are neighbours. A graph none of whose
//! steps do keeps its order, which takes less memory.

use super::schedule::{ScheduleGraph, Step, Work};
use reef_op::{Op, Tensor};

/// Maximum number of steps that a device is asked about at once.
const MAX_STEPS: usize = 4;

/// Each step by itself, in the order of `graph`.
pub(crate) fn one_by_one(graph: &ScheduleGraph) -> Vec<Vec<usize>> {
    (0..graph.steps.len()).map(|step| vec![step]).collect()
}

/// The steps in their order, those that share a launch together. `count` says of at least two steps
/// how many of them, from the first on, are best one launch.
pub(crate) fn grouped(graph: &ScheduleGraph, count: impl Fn(&[usize]) -> usize) -> Vec<Vec<usize>> {
    let depths = depths(graph);
    let mut order: Vec<usize> = (0..graph.steps.len()).collect();
    order.sort_by_key(|&step| (depths[step], !is_convolution(&graph.steps[step]), step));
    let mut groups = Vec::with_capacity(order.len());
    for mut left in order.chunk_by(|&a, &b| depths[a] == depths[b]) {
        while !left.is_empty() {
            let some = &left[..left.len().min(MAX_STEPS)];
            let count = if some.len() > 1 { count(some).clamp(1, some.len()) } else { 1 };
            groups.push(left[..count].to_vec());
            left = &left[count..];
        }
    }
    if groups.len() == order.len() { one_by_one(graph) } else { groups }
}

/// Other kinds have no launch in common, and would stand between those that do.
fn is_convolution(step: &Step) -> bool {
    matches!(step.work, Work::Op(Op::Conv2d(_)))
}

/// Steps that used a storage so far.
#[derive(Debug, Default)]
struct Uses {
    /// Depths of those that wrote it, and the tensors that they wrote, if known.
    writers: Vec<(usize, Option<Tensor>)>,
    /// Least depth behind all that read it.
    behind_readers: usize,
}

impl Uses {
    /// Least depth behind those that wrote what `meets` is true of.
    fn behind_writers(&self, meets: impl Fn(Option<Tensor>) -> bool) -> usize {
        let behind = self.writers.iter().filter(|(_, tensor)| meets(*tensor));
        behind.map(|(depth, _)| depth + 1).max().unwrap_or(0)
    }
}

/// The depth of each step. It comes behind those that write what it reads, and that use what it
/// writes, other channels of a storage apart.
fn depths(graph: &ScheduleGraph) -> Vec<usize> {
    let mut uses: Vec<Uses> = graph.storages.iter().map(|_| Uses::default()).collect();
    let mut depths = Vec::with_capacity(graph.steps.len());
    for step in &graph.steps {
        let written = match &step.work {
            Work::Op(op) => Some(*op.output()),
            Work::Kernel(_) => None,
        };
        let meets = |other: Option<Tensor>| {
            written.zip(other).is_none_or(|(a, b)| !a.has_other_channels(&b))
        };
        let read = step.reads.iter().map(|&read| uses[read].behind_writers(|_| true)).max();
        let to = &uses[step.writes];
        let depth = read.unwrap_or(0).max(to.behind_writers(meets)).max(to.behind_readers);
        for &read in &step.reads {
            uses[read].behind_readers = uses[read].behind_readers.max(depth + 1);
        }
        uses[step.writes].writers.push((depth, written));
        depths.push(depth);
    }
    depths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::arena::{plan, plan_in_groups};
    use crate::graph::schedule::{KernelCall, Storage};

    /// Each step reads some storages and writes one; there are seven.
    fn graph(steps: &[(&[usize], usize)]) -> ScheduleGraph {
        let call = KernelCall { grid: [1; 3], block: [1; 3], args: Vec::new() };
        let step = |&(reads, writes): &(&[usize], usize)| Step {
            name: "k".into(),
            work: Work::Kernel(call.clone()),
            reads: reads.to_vec(),
            writes,
        };
        let steps = steps.iter().map(step).collect();
        let storages = (0..7).map(|n| Storage::floats(format!("s{n}"), 16)).collect();
        ScheduleGraph { name: "test".into(), storages, steps, given: vec![0] }
    }

    /// Two convolutions of a ResNet block, its downsampling one behind them, and two steps more.
    fn block() -> ScheduleGraph {
        graph(&[(&[0], 1), (&[1], 2), (&[0], 3), (&[2, 3], 4), (&[4], 5)])
    }

    #[test]
    fn steps_of_one_depth_share_a_launch_if_the_device_says_so() {
        let block = block();
        assert_eq!(grouped(&block, <[usize]>::len), [vec![0, 2], vec![1], vec![3], vec![4]]);
        assert_eq!(grouped(&block, |_| 1), one_by_one(&block));
        assert_eq!(grouped(&block, |_| 0), one_by_one(&block), "an answer out of range");
    }

    #[test]
    fn depth_is_behind_writers_and_readers_of_a_storage() {
        assert_eq!(depths(&graph(&[(&[0], 1), (&[1], 2), (&[0], 3)])), [0, 1, 0]);
        let again = graph(&[(&[0], 1), (&[1], 2), (&[0], 1), (&[1], 3)]);
        assert_eq!(depths(&again), [0, 1, 2, 3], "written again behind its reader");
        assert_eq!(depths(&graph(&[(&[0], 1), (&[0], 1)])), [0, 1], "written twice");
    }

    /// The second step's input is free behind it, and its neighbour would get that memory.
    #[test]
    fn storages_of_a_group_share_no_memory() {
        let block = block();
        let one_by_one_plan = plan(&block).offsets;
        assert_eq!(one_by_one_plan[1], one_by_one_plan[3]);
        let grouped = plan_in_groups(&block, &grouped(&block, <[usize]>::len)).offsets;
        assert_ne!(grouped[1], grouped[3]);
        assert!(![grouped[1], grouped[2]].contains(&grouped[3]), "it lives until they are added");
        assert_eq!(plan_in_groups(&block, &one_by_one(&block)), plan(&block));
    }
}
