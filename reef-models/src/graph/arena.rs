//! One buffer for all activations: storages whose lives don't meet share memory.
//!
//! A storage lives from the first step that writes it to the last that touches it, both included.
//! Two that live at the same step never overlap, so neither do a step's inputs and its output.
//!
//! REEF's networks share buffers too, and its restart corrupts them: it runs launches again whose
//! inputs later launches have overwritten. This is safe here because a block that took effect never
//! runs again, and because a launch starts only after the one before it has finished. So when a
//! launch is stopped, everything before it is done and nothing after it has begun; the blocks that
//! remain read the inputs of that launch, which live, and write the rest of its output. Storages of
//! steps that share a launch are in use all the time that it runs.
//!
//! Bytes for one image that sharing saves (see `tests/integration/arena.rs`):
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

use super::at_steps::AtSteps;
use super::schedule::{ScheduleGraph, Storage};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// Every storage starts at a multiple of this many bytes.
pub const ALIGNMENT: usize = 64;

/// Places of the storages in the arena.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArenaPlan {
    /// First byte of each storage; `None` for those that have their own memory: what is given,
    /// `output`, and what no step touches.
    pub offsets: Vec<Option<usize>>,
    /// Size of the arena.
    pub bytes: usize,
}

/// A storage that needs a place.
#[derive(Debug)]
struct Tenant {
    storage: usize,
    bytes: usize,
    life: RangeInclusive<usize>,
}

/// Steps that all lives together may last for [`tightest`], which notes each storage at each of its
/// steps.
const STEPS: usize = 1 << 22;

/// Places all activations of `graph`.
///
/// # Panics
///
/// If a step, or what is given, is of a storage that the graph does not have.
pub fn plan(graph: &ScheduleGraph) -> ArenaPlan {
    let bytes: Vec<usize> = graph.storages.iter().map(Storage::bytes).collect();
    place(&bytes, lives_at(graph, |step| step))
}

/// Places all activations of `graph`, whose steps run in the order of these groups: see
/// [`order`](super::order). All storages of a group are in use all the time that it runs.
pub(crate) fn plan_in_groups(graph: &ScheduleGraph, groups: &[Vec<usize>]) -> ArenaPlan {
    let mut times = vec![0; graph.steps.len()];
    for (time, group) in groups.iter().enumerate() {
        group.iter().for_each(|&step| times[step] = time);
    }
    let bytes: Vec<usize> = graph.storages.iter().map(Storage::bytes).collect();
    place(&bytes, lives_at(graph, |step| times[step]))
}

/// Places storages, given their bytes and the steps at which they hold something. Those with `None`
/// get no place.
/// The largest comes first, and each where it wastes least. If there are many long lives, this
/// would take seconds. Then they come in the order of the steps instead, which wastes more.
pub(crate) fn place(bytes: &[usize], lives: Vec<Option<RangeInclusive<usize>>>) -> ArenaPlan {
    let storages = lives.len();
    let tenants = tenants(bytes, lives);
    let steps =
        tenants.iter().map(|tenant| tenant.life.end() - tenant.life.start() + 1).sum::<usize>();
    let placed = if steps <= STEPS { tightest(&tenants) } else { in_order(&tenants) };
    let mut offsets = vec![None; storages];
    tenants
        .iter()
        .zip(&placed)
        .for_each(|(tenant, &offset)| offsets[tenant.storage] = Some(offset));
    let ends = tenants.iter().zip(&placed).map(|(tenant, offset)| offset + tenant.bytes);
    ArenaPlan { offsets, bytes: ends.max().unwrap_or(0) }
}

/// Bytes that the storages would take without sharing.
///
/// # Panics
///
/// If a step, or what is given, is of a storage that the graph does not have.
pub fn private_bytes(graph: &ScheduleGraph) -> usize {
    let bytes: Vec<usize> = graph.storages.iter().map(Storage::bytes).collect();
    tenants(&bytes, lives_at(graph, |step| step)).iter().map(|tenant| tenant.bytes).sum()
}

/// The times at which each storage holds something, as each step runs at its time; `None` if it
/// has its own memory.
///
/// Given storages and `output` do, and one that no step touches needs none.
fn lives_at(
    graph: &ScheduleGraph,
    time: impl Fn(usize) -> usize,
) -> Vec<Option<RangeInclusive<usize>>> {
    let mut lives: Vec<Option<RangeInclusive<usize>>> = vec![None; graph.storages.len()];
    for (k, step) in graph.steps.iter().enumerate() {
        let now = time(k);
        for storage in step.touches() {
            let life = lives[storage].clone().unwrap_or(now..=now);
            lives[storage] = Some(now.min(*life.start())..=now.max(*life.end()));
        }
    }
    let own = graph.given.iter().copied().chain(graph.storage("output"));
    own.for_each(|storage| lives[storage] = None);
    lives
}

/// The largest first; of equals the one that lives first.
fn tenants(bytes: &[usize], lives: Vec<Option<RangeInclusive<usize>>>) -> Vec<Tenant> {
    let tenant = |(storage, life): (usize, Option<RangeInclusive<usize>>)| {
        let bytes = bytes[storage].next_multiple_of(ALIGNMENT);
        life.map(|life| Tenant { storage, bytes, life })
    };
    let mut tenants: Vec<_> = lives.into_iter().enumerate().filter_map(tenant).collect();
    tenants.sort_by_key(|tenant| (Reverse(tenant.bytes), *tenant.life.start()));
    tenants
}

/// A place for each of `tenants`, one after the other, in the tightest gap between those that live
/// when it does.
fn tightest(tenants: &[Tenant]) -> Vec<usize> {
    let mut placed = AtSteps::of(tenants.iter().map(|tenant| &tenant.life));
    let mut offsets: Vec<usize> = Vec::with_capacity(tenants.len());
    let mut others: Vec<usize> = Vec::new();
    // The last tenant in whose life each was found.
    let mut met_by = vec![usize::MAX; tenants.len()];
    for (number, tenant) in tenants.iter().enumerate() {
        others.clear();
        for &other in tenant.life.clone().flat_map(|step| placed.at(step)) {
            if std::mem::replace(&mut met_by[other], number) != number {
                others.push(other);
            }
        }
        others.sort_unstable_by_key(|&other| (offsets[other], other));
        let taken = others.iter().map(|&other| (offsets[other], tenants[other].bytes));
        offsets.push(best_gap(tenant.bytes, taken));
        placed.add(number, &tenant.life);
    }
    offsets
}

/// The tightest gap for `bytes` between what is taken: offsets in order, each with its length.
fn best_gap(bytes: usize, taken: impl Iterator<Item = (usize, usize)>) -> usize {
    let mut best: Option<(usize, usize)> = None;
    let mut end = 0;
    for (offset, len) in taken {
        let gap = offset.saturating_sub(end);
        if gap >= bytes && best.is_none_or(|(tightest, _)| gap < tightest) {
            best = Some((gap, end));
        }
        end = end.max(offset + len);
    }
    best.map_or(end, |(_, offset)| offset)
}

/// A place for each of `tenants`: step by step, in the smallest gap that is free, those that end
/// are freed.
fn in_order(tenants: &[Tenant]) -> Vec<usize> {
    let mut starts: Vec<usize> = (0..tenants.len()).collect();
    starts.sort_by_key(|&number| *tenants[number].life.start());
    let mut ends = starts.clone();
    ends.sort_by_key(|&number| *tenants[number].life.end());
    let (mut offsets, mut free) = (vec![0; tenants.len()], Gaps::default());
    let mut ended = ends.into_iter().peekable();
    for number in starts {
        let begins = *tenants[number].life.start();
        while let Some(other) = ended.next_if(|&other| *tenants[other].life.end() < begins) {
            free.give_back(offsets[other], tenants[other].bytes);
        }
        offsets[number] = free.take(tenants[number].bytes);
    }
    offsets
}

/// Free gaps by place and by size. Everything from `end` on is free as well.
#[derive(Default)]
struct Gaps {
    by_offset: BTreeMap<usize, usize>,
    by_bytes: BTreeSet<(usize, usize)>,
    end: usize,
}

impl Gaps {
    fn take(&mut self, bytes: usize) -> usize {
        let Some(&(gap, offset)) = self.by_bytes.range((bytes, 0)..).next() else {
            self.end += bytes;
            return self.end - bytes;
        };
        self.remove(offset, gap);
        if gap > bytes {
            self.insert(offset + bytes, gap - bytes);
        }
        offset
    }

    /// Frees a range, which becomes one with free ranges that adjoin it.
    fn give_back(&mut self, mut offset: usize, mut bytes: usize) {
        if bytes == 0 {
            return;
        }
        if let Some((&before, &len)) = self.by_offset.range(..offset).next_back()
            && before + len == offset
        {
            self.remove(before, len);
            (offset, bytes) = (before, bytes + len);
        }
        if let Some(&len) = self.by_offset.get(&(offset + bytes)) {
            self.remove(offset + bytes, len);
            bytes += len;
        }
        self.insert(offset, bytes);
    }

    fn insert(&mut self, offset: usize, bytes: usize) {
        self.by_offset.insert(offset, bytes);
        self.by_bytes.insert((bytes, offset));
    }

    fn remove(&mut self, offset: usize, bytes: usize) {
        self.by_offset.remove(&offset);
        self.by_bytes.remove(&(bytes, offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn overlap(tenants: &[Tenant], offsets: &[usize]) -> bool {
        let meet = |a: usize, b: usize| {
            let (one, other) = (&tenants[a], &tenants[b]);
            let in_time =
                one.life.start() <= other.life.end() && other.life.start() <= one.life.end();
            let in_place =
                offsets[a] < offsets[b] + other.bytes && offsets[b] < offsets[a] + one.bytes;
            in_time && in_place
        };
        (0..tenants.len()).any(|a| (0..a).any(|b| meet(a, b)))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        #[test]
        fn storages_with_overlapping_lives_do_not_overlap(
            given in prop::collection::vec((1usize..5000, 0usize..40, 0usize..20), 1..60),
        ) {
            let bytes: Vec<usize> = given.iter().map(|given| given.0).collect();
            let lives = given.iter().map(|&(_, start, steps)| Some(start..=start + steps)).collect();
            let tenants = tenants(&bytes, lives);
            prop_assert!(!overlap(&tenants, &tightest(&tenants)));
            prop_assert!(!overlap(&tenants, &in_order(&tenants)));
        }
    }

    #[test]
    fn a_hundred_thousand_steps_are_placed_at_once() {
        let chain = (0..100_000).map(|k| Some(k..=k + 1)).collect();
        let plan = place(&vec![1000; 100_000], chain);
        assert_eq!(plan.bytes, 2048);
        let fan = (0..100_000).map(|k| Some(k..=100_000)).collect();
        assert_eq!(place(&vec![64; 100_000], fan).bytes, 6_400_000);
    }
}
