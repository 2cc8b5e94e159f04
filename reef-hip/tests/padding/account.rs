//! Cost of a run in instructions, from the places of its workgroups.

use crate::scene::Ran;
use reef_gfx906::Record;
use std::collections::{BTreeMap, BTreeSet};

/// Account of a real-time task and the best-effort work next to it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Account {
    /// Units that real-time blocks ran on.
    pub(crate) rt_units: BTreeSet<u32>,
    /// Units that best-effort blocks ran on.
    pub(crate) be_units: BTreeSet<u32>,
    /// Instructions of the unit that has most to do, for each kernel of the task, added up: units
    /// work side by side, so a kernel is over when the busiest of them is.
    pub(crate) path: u64,
    /// Its instructions with all those of the best-effort blocks that were on that unit meanwhile:
    /// what it comes to if the unit does all of theirs first.
    pub(crate) worst: u64,
    /// Maximum of best-effort blocks on units at a time.
    pub(crate) be_most: usize,
    /// Best-effort blocks on units at a time, in the mean over the task's instructions.
    pub(crate) be_places: f64,
    /// Best-effort blocks that were on a unit together with a real-time block.
    pub(crate) be_shared: usize,
    /// Best-effort work was there until the task had ended.
    pub(crate) lasted: bool,
}

impl Account {
    pub(crate) fn of(ran: &Ran) -> Self {
        let kernels = ran.rt.chunk_by(|a, b| a.launch == b.launch);
        let (path, worst) = kernels
            .map(|kernel| busiest(kernel, &ran.be))
            .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        let begin = ran.rt.iter().map(|record| record.start).min().unwrap_or(0);
        let end = ran.rt.iter().map(|record| record.end).max().unwrap_or(0);
        let held: u64 = ran.be.iter().map(|be| shared(be, begin, end)).sum();
        Self {
            rt_units: ran.rt.iter().map(|record| record.unit).collect(),
            be_units: ran.be.iter().map(|record| record.unit).collect(),
            path,
            worst,
            be_most: max_overlap(&ran.be),
            be_places: held as f64 / (end - begin).max(1) as f64,
            be_shared: ran.be.iter().filter(|be| meets(be, &ran.rt)).count(),
            lasted: ran.be.iter().any(|be| be.end > end),
        }
    }
}

/// Instructions of the busiest unit of a kernel: its own, and with those of others next to them.
fn busiest(kernel: &[Record], be: &[Record]) -> (u64, u64) {
    let mut units: BTreeMap<u32, Vec<Record>> = BTreeMap::new();
    kernel.iter().for_each(|record| units.entry(record.unit).or_default().push(*record));
    let most = units.values().map(|blocks| {
        let own: u64 = blocks.iter().map(|block| block.steps).sum();
        let others = be.iter().filter(|be| meets(be, blocks)).map(|be| be.steps);
        (own, own + others.sum::<u64>())
    });
    most.fold((0, 0), |a, b| (a.0.max(b.0), a.1.max(b.1)))
}

/// Returns whether a block was on a unit together with one of these.
fn meets(block: &Record, others: &[Record]) -> bool {
    let met = |other: &Record| block.start < other.end && other.start < block.end;
    others.iter().any(|other| other.unit == block.unit && met(other))
}

/// Instructions of the device between these two while the block was on its unit.
fn shared(block: &Record, begin: u64, end: u64) -> u64 {
    block.end.min(end).saturating_sub(block.start.max(begin))
}

/// Maximum of these that are on units at a time.
fn max_overlap(blocks: &[Record]) -> usize {
    // A block that ends when another one is placed has left before.
    let mut changes: Vec<(u64, i32)> =
        blocks.iter().flat_map(|block| [(block.start, 1), (block.end, -1)]).collect();
    changes.sort_unstable();
    let now = changes.iter().scan(0, |now, (_, change)| {
        *now += change;
        Some(*now)
    });
    now.max().unwrap_or(0) as usize
}
