//! Where replaying launches would read what a later launch has already overwritten.
//!
//! REEF resumes a preempted network up to `d` launches before the last one known to have finished.
//! That is sound only if those launches still find their inputs; where buffers are shared, some
//! don't. This crate's networks are never replayed, so the relation is here to test graphs with.

use crate::schedule::{ScheduleGraph, Step};

/// Positions `k` at which running the last `d` launches and `k` again reads wrong values.
///
/// There is a hazard at `k` if a launch in `k - d ..= k` reads a storage that no launch before it in
/// that window writes, and that a launch after it in the window does. It isn't monotone in `d`: a
/// longer window can produce its inputs anew.
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
