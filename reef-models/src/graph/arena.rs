//! One buffer for all activations: storages whose lives don't meet share memory.
//!
//! A storage lives from the first step that writes it to the last that touches it, both included.
//! Two that live at the same step never overlap, so neither do a step's inputs and its output.
//!
//! REEF's networks share buffers too, and its restart corrupts them: it runs launches again whose
//! inputs later launches have overwritten. This is safe here because a block that took effect never
//! runs again, and because a launch starts only after the one before it has finished. So when a
//! launch is stopped, everything before it is done and nothing after it has begun; the blocks that
//! remain read the inputs of that launch, which live, and write the rest of its output.
//!
//! What sharing saves, in bytes for one picture (see `tests/arena.rs`):
//!
//! | network | shared | a buffer for each storage |
//! |---|---|---|
//! | resnet18 | 4,014,080 | 10,739,712 |
//! | resnet50 | 7,225,344 | 45,266,944 |
//! | resnet152 | 7,225,344 | 91,027,456 |
//! | densenet121 | 8,028,160 | 71,304,192 |
//! | densenet201 | 8,028,160 | 108,538,368 |
//! | inception_v3 | 8,297,856 | 46,722,304 |
//! | vgg19 | 25,690,112 | 65,562,624 |
//! | alexnet | 961,024 | 2,326,016 |

use super::schedule::ScheduleGraph;
use std::cmp::Reverse;
use std::ops::RangeInclusive;

/// Every storage starts at a multiple of this many bytes.
pub const ALIGNMENT: usize = 64;

/// Where each storage lies in the arena.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArenaPlan {
    /// First byte of each storage; `None` for those that have their own memory: what is given,
    /// `output`, and what no step touches.
    pub offsets: Vec<Option<usize>>,
    /// Size of the arena.
    pub bytes: usize,
}

/// A storage that needs a place.
struct Tenant {
    storage: usize,
    bytes: usize,
    life: RangeInclusive<usize>,
}

/// A tenant's place.
struct Placed<'a> {
    tenant: &'a Tenant,
    offset: usize,
}

/// Places all activations of `graph`, the largest first, each where it wastes least.
pub fn plan(graph: &ScheduleGraph) -> ArenaPlan {
    let tenants = tenants(graph);
    let mut placed: Vec<Placed<'_>> = Vec::new();
    for tenant in &tenants {
        let offset = best_gap(tenant, &placed);
        let at = placed.partition_point(|other| other.offset <= offset);
        placed.insert(at, Placed { tenant, offset });
    }
    let mut offsets = vec![None; graph.storages.len()];
    placed.iter().for_each(|placed| offsets[placed.tenant.storage] = Some(placed.offset));
    let ends = placed.iter().map(|placed| placed.offset + placed.tenant.bytes);
    ArenaPlan { offsets, bytes: ends.max().unwrap_or(0) }
}

/// What the same storages take without sharing.
pub fn private_bytes(graph: &ScheduleGraph) -> usize {
    tenants(graph).iter().map(|tenant| tenant.bytes).sum()
}

/// The steps at which each storage holds something; `None` if it has its own memory.
///
/// Given storages and `output` do, and one that no step touches needs none.
pub fn lives(graph: &ScheduleGraph) -> Vec<Option<RangeInclusive<usize>>> {
    let mut lives: Vec<Option<RangeInclusive<usize>>> = vec![None; graph.storages.len()];
    for (k, step) in graph.steps.iter().enumerate() {
        for storage in step.touches() {
            let first = lives[storage].as_ref().map_or(k, |life| *life.start());
            lives[storage] = Some(first..=k);
        }
    }
    let own = graph.given.iter().copied().chain(graph.storage("output"));
    own.for_each(|storage| lives[storage] = None);
    lives
}

/// The largest first; of equals the one that lives first.
fn tenants(graph: &ScheduleGraph) -> Vec<Tenant> {
    let tenant = |(storage, life): (usize, Option<RangeInclusive<usize>>)| {
        let bytes = graph.storages[storage].bytes().next_multiple_of(ALIGNMENT);
        life.map(|life| Tenant { storage, bytes, life })
    };
    let mut tenants: Vec<_> = lives(graph).into_iter().enumerate().filter_map(tenant).collect();
    tenants.sort_by_key(|tenant| (Reverse(tenant.bytes), *tenant.life.start()));
    tenants
}

/// The tightest gap for `tenant` between those of `placed` (sorted by offset) that live when it does.
fn best_gap(tenant: &Tenant, placed: &[Placed<'_>]) -> usize {
    let mut best: Option<(usize, usize)> = None;
    let mut end = 0;
    for other in placed.iter().filter(|other| meet(&tenant.life, &other.tenant.life)) {
        let gap = other.offset.saturating_sub(end);
        if gap >= tenant.bytes && best.is_none_or(|(tightest, _)| gap < tightest) {
            best = Some((gap, end));
        }
        end = end.max(other.offset + other.tenant.bytes);
    }
    best.map_or(end, |(_, offset)| offset)
}

fn meet(a: &RangeInclusive<usize>, b: &RangeInclusive<usize>) -> bool {
    a.start() <= b.end() && b.start() <= a.end()
}
