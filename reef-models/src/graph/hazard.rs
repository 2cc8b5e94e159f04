//! Hazards of a replay: launches that would read data which a later launch has overwritten.
//!
//! REEF resumes a preempted network up to `d` launches before the last one known to have finished.
//! That is sound only if those launches still find their inputs; where buffers are shared, some
//! don't. This crate's networks are never replayed, so the relation is here to test graphs with.

use super::schedule::{ScheduleGraph, Step};

/// Positions `k` at which running the last `d` launches and `k` again reads wrong values.
///
/// There is a hazard at `k` if a launch in `k - d ..= k` reads a storage that no launch before it
/// in that window writes, and that a launch after it in the window does. It isn't monotone in `d`:
/// a longer window can produce its inputs anew.
///
/// Storages are taken whole: networks that concatenate look more hazardous than they are.
pub fn hazards(graph: &ScheduleGraph, d: usize) -> Vec<usize> {
    let window = |k: usize| &graph.steps[k.saturating_sub(d)..=k];
    (0..graph.steps.len()).filter(|&k| overwrites_its_input(window(k))).collect()
}

fn overwrites_its_input(window: &[Step]) -> bool {
    let writes = |steps: &[Step], storage| steps.iter().any(|step| step.writes == storage);
    let stale = |j: usize, read| !writes(&window[..j], read) && writes(&window[j + 1..], read);
    window.iter().enumerate().any(|(j, step)| step.reads.iter().any(|&read| stale(j, read)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::schedule::{KernelCall, Work};

    /// Each step reads one storage and writes one.
    fn graph(steps: &[(usize, usize)]) -> ScheduleGraph {
        let call = KernelCall { grid: [1; 3], block: [1; 3], args: Vec::new() };
        let step = |&(read, writes): &(usize, usize)| Step {
            name: "k".into(),
            work: Work::Kernel(call.clone()),
            reads: vec![read],
            writes,
        };
        let steps = steps.iter().map(step).collect();
        ScheduleGraph { name: "test".into(), storages: Vec::new(), steps, given: Vec::new() }
    }

    #[test]
    fn a_chain_through_private_storages_can_be_replayed() {
        let graph = graph(&[(0, 1), (1, 2), (2, 3)]);
        assert!((0..3).all(|d| hazards(&graph, d).is_empty()));
    }

    #[test]
    fn ping_pong_breaks_with_reader_and_next_writer_in_the_window() {
        let graph = graph(&[(0, 1), (1, 2), (2, 1), (1, 2)]);
        assert_eq!(hazards(&graph, 0), [] as [usize; 0]);
        assert_eq!(hazards(&graph, 1), [2, 3]);
        assert_eq!(hazards(&graph, 2), [3], "0..=2 makes storage 1 anew");
    }
}
