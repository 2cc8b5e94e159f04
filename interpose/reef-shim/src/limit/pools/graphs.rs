//! Memory of executable graphs: they get it by a launch, and keep it until the driver is told to
//! free it or gives it to another graph.
//!
//! Graphs that run in turn may have the same memory: those that are launched in one stream, and any
//! after the other one has ended. So a graph *has* its memory for launches in the stream of its
//! last one, until another launch may have been given that: one for which the driver has allocated
//! less than the graph needs. Only a graph whose allocations end inside of it shares with those of
//! its stream. One that leaves allocations has its memory for itself until the program frees them.

use super::holes::{POOL_UNIT, StreamKey};
use crate::limit::sizes::round_up;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard};

/// Peak memory of a graph's memory nodes on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) ordinal: i32,
    pub(crate) bytes: u64,
}

/// Memory of a graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct GraphNeeds {
    pub(crate) each: Vec<Need>,
    /// True if no node of it frees one of its allocations.
    pub(crate) leaves: bool,
}

impl GraphNeeds {
    fn on(&self, ordinal: i32) -> u64 {
        let its = self.each.iter().filter(|need| need.ordinal == ordinal);
        its.map(|need| need.bytes).sum()
    }

    /// Returns these needs with `after` in the place of a part of them.
    fn replace(&self, part: &Self, after: &Self) -> Self {
        let without =
            |need: &Need| Need { bytes: need.bytes.saturating_sub(part.on(need.ordinal)), ..*need };
        let mut each: Vec<_> = self.each.iter().map(without).collect();
        for need in &after.each {
            match each.iter_mut().find(|known| known.ordinal == need.ordinal) {
                Some(known) => known.bytes = known.bytes.saturating_add(need.bytes),
                None => each.push(*need),
            }
        }
        Self { each, leaves: self.leaves || after.leaves }
    }
}

#[derive(Debug)]
struct Exec {
    needs: GraphNeeds,
    /// Stream for whose launches it has its memory.
    backed: Option<StreamKey>,
    /// Parts of its needs that are those of other child graphs than at first, by their nodes.
    children: HashMap<usize, GraphNeeds>,
    /// True after an update by a graph: which parts are those of child graphs is unknown.
    is_updated: bool,
}

impl Exec {
    fn new(needs: GraphNeeds) -> Self {
        Self { needs, backed: None, children: HashMap::new(), is_updated: false }
    }

    /// Returns whether it has memory for other needs.
    fn has_enough(&self, needs: &GraphNeeds) -> bool {
        let fits = |need: &Need| need.bytes <= self.needs.on(need.ordinal);
        needs.each.iter().all(fits) && (self.needs.leaves || !needs.leaves)
    }
}

/// Launch that may take memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    exec: usize,
    stream: StreamKey,
    number: u64,
    is_alone: bool,
}

#[derive(Debug, Default)]
struct Execs {
    all: HashMap<usize, Exec>,
    /// Launches that may take memory: their number so far, and of those that have not returned.
    launches: u64,
    open: u64,
    /// True once the driver took more for a launch than it should have by these rules.
    never_shares: bool,
    /// True once it took less than a unit of pools more: it rounds up to these.
    takes_units: bool,
}

static EXECS: LazyLock<Mutex<Execs>> = LazyLock::new(Mutex::default);
/// Number of graphs with memory: without any, launches of graphs take no lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn execs() -> MutexGuard<'static, Execs> {
    EXECS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns whether any graph has memory.
pub(crate) fn are_any() -> bool {
    COUNT.load(Relaxed) > 0
}

/// Notes a graph with its own memory.
pub(crate) fn note(exec: usize, needs: GraphNeeds) {
    let mut execs = execs();
    execs.all.insert(exec, Exec::new(needs));
    COUNT.store(execs.all.len(), Relaxed);
}

/// Notes what a graph needs after an update. It keeps its memory if that is enough.
pub(crate) fn note_updated(exec: usize, needs: GraphNeeds) {
    let mut execs = execs();
    let has_enough = execs.all.get_mut(&exec).is_some_and(|known| {
        known.is_updated = true;
        known.children.clear();
        known.has_enough(&needs)
    });
    if !has_enough {
        execs.all.insert(exec, Exec { is_updated: true, ..Exec::new(needs) });
        COUNT.store(execs.all.len(), Relaxed);
    }
}

/// Notes that a node of a graph has another child graph, with these needs. `before` are those of
/// the child graph with which the graph was made.
pub(crate) fn note_child(exec: usize, node: usize, before: &GraphNeeds, after: &GraphNeeds) {
    let mut execs = execs();
    execs.replace_child(exec, node, before, after);
    COUNT.store(execs.all.len(), Relaxed);
}

pub(crate) fn forget(exec: usize) {
    if are_any() {
        let mut execs = execs();
        execs.all.remove(&exec);
        COUNT.store(execs.all.len(), Relaxed);
    }
}

/// Returns whether a graph has memory of its own.
pub(crate) fn has_memory(exec: usize) -> bool {
    are_any() && execs().all.contains_key(&exec)
}

pub(crate) fn begin(exec: usize, stream: StreamKey) -> Launch {
    let mut execs = execs();
    execs.open += 1;
    execs.launches += 1;
    Launch { exec, stream, number: execs.launches, is_alone: execs.open == 1 }
}

/// Returns the bytes that the driver may allocate for a launch, as things are now.
pub(crate) fn needed(launch: &Launch) -> Vec<Need> {
    execs().needed(launch.exec, launch.stream)
}

/// Returns the bytes that a graph needs, if it has no memory yet and shares none.
pub(crate) fn all(exec: usize) -> Vec<Need> {
    let execs = execs();
    execs.all.get(&exec).map(|known| execs.whole(&known.needs)).unwrap_or_default()
}

/// Returns the bytes that the driver may allocate for these needs of a graph.
pub(crate) fn whole(needs: &GraphNeeds) -> Vec<Need> {
    execs().whole(needs)
}

/// Returns whether launches that may take memory have not returned: their bytes are reserved.
pub(crate) fn are_any_open() -> bool {
    execs().open > 0
}

/// Returns the ordinals of the devices on which the graph of a launch has memory.
pub(crate) fn devices(launch: &Launch) -> Vec<i32> {
    let execs = execs();
    let needs = execs.all.get(&launch.exec).map(|known| &known.needs.each);
    needs.into_iter().flatten().map(|need| need.ordinal).collect()
}

/// Ends a launch that has returned, for which the driver has allocated so much on each device;
/// `None`: it has failed.
pub(crate) fn end(launch: Launch, grown: Option<&[Need]>) {
    let mut execs = execs();
    execs.open = execs.open.saturating_sub(1);
    let is_alone = launch.is_alone && launch.number == execs.launches;
    if let Some(grown) = grown {
        execs.launched(launch.exec, launch.stream, if is_alone { grown } else { &[] });
    }
}

/// Notes how many bytes more than were reserved the driver has allocated for a launch.
pub(crate) fn note_unreserved(bytes: u64) {
    execs().note_unreserved(bytes);
}

/// Returns whether graphs of a stream share their memory, as far as is known.
pub(crate) fn are_shared() -> bool {
    !execs().never_shares
}

/// Notes that graphs may have lost their memory on a device.
pub(crate) fn unback(ordinal: i32) {
    if are_any() {
        let mut execs = execs();
        let its = execs.all.values_mut().filter(|exec| exec.needs.on(ordinal) > 0);
        its.for_each(|exec| exec.backed = None);
    }
}

/// Notes that a stream is about to end: another one may get its key.
pub(crate) fn end_stream(stream: StreamKey) {
    if are_any() {
        let mut execs = execs();
        let its = execs.all.values_mut().filter(|exec| exec.backed == Some(stream));
        its.for_each(|exec| exec.backed = None);
    }
}

impl Execs {
    fn note_unreserved(&mut self, bytes: u64) {
        let is_rounded = (1..POOL_UNIT).contains(&bytes) && !self.takes_units;
        self.takes_units |= is_rounded;
        self.never_shares |= bytes > 0 && !is_rounded;
    }

    /// Returns the bytes that the driver takes for this many.
    fn size(&self, bytes: u64) -> u64 {
        if self.takes_units { round_up(bytes, POOL_UNIT) } else { bytes }
    }

    fn whole(&self, needs: &GraphNeeds) -> Vec<Need> {
        needs.each.iter().map(|need| Need { bytes: self.size(need.bytes), ..*need }).collect()
    }

    /// Returns the bytes that the driver may allocate for a launch; nothing for one that has its
    /// memory.
    fn needed(&self, exec: usize, stream: StreamKey) -> Vec<Need> {
        let Some(known) = self.all.get(&exec).filter(|known| known.backed != Some(stream)) else {
            return Vec::new();
        };
        let more = |need: &Need| {
            let shared = if self.never_shares { 0 } else { self.shared(need.ordinal, stream) };
            Need { bytes: self.size(need.bytes).saturating_sub(shared), ..*need }
        };
        known.needs.each.iter().map(more).collect()
    }

    /// Returns the bytes that graphs of a stream have in turn.
    fn shared(&self, ordinal: i32, stream: StreamKey) -> u64 {
        let shares = |exec: &&Exec| exec.backed == Some(stream) && !exec.needs.leaves;
        let sizes = self.all.values().filter(shares).map(|exec| exec.needs.on(ordinal));
        sizes.map(|bytes| self.size(bytes)).max().unwrap_or(0)
    }

    /// Puts the needs of another child graph in the place of those that a node had. The graph keeps
    /// its memory if that is enough.
    fn replace_child(&mut self, exec: usize, node: usize, before: &GraphNeeds, after: &GraphNeeds) {
        let known = self.all.entry(exec).or_insert_with(|| Exec::new(GraphNeeds::default()));
        let none = GraphNeeds::default();
        let part = match known.children.get(&node) {
            Some(part) => part,
            None if known.is_updated => &none,
            None => before,
        };
        let needs = known.needs.replace(part, after);
        if !known.has_enough(&needs) {
            (known.needs, known.backed) = (needs, None);
            known.children.insert(node, after.clone());
        }
    }

    /// Notes that a graph has its memory, part of which may have been that of others: all but what
    /// has grown by this launch.
    fn launched(&mut self, exec: usize, stream: StreamKey, grown: &[Need]) {
        let Some(known) = self.all.get_mut(&exec) else { return };
        let was_backed = known.backed.replace(stream) == Some(stream);
        let is_new = |need: &Need| {
            grown.iter().any(|grown| grown.ordinal == need.ordinal && grown.bytes >= need.bytes)
        };
        if !was_backed && known.needs.each.iter().all(is_new) {
            return;
        }
        let leaves = known.needs.leaves;
        for (other, of) in &mut self.all {
            let shares = of.backed == Some(stream);
            let has_lost = if shares { leaves } else { !was_backed };
            if *other != exec && has_lost {
                of.backed = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: StreamKey = StreamKey(1, 1);
    const TWO: StreamKey = StreamKey(1, 2);

    fn execs(all: &[(usize, u64, bool)]) -> Execs {
        let exec = |&(exec, bytes, leaves)| {
            let needs = GraphNeeds { each: vec![Need { ordinal: 0, bytes }], leaves };
            (exec, Exec::new(needs))
        };
        Execs { all: all.iter().map(exec).collect(), ..Execs::default() }
    }

    fn bytes(execs: &Execs, exec: usize, stream: StreamKey) -> u64 {
        execs.needed(exec, stream).iter().map(|need| need.bytes).sum()
    }

    fn grown(bytes: u64) -> [Need; 1] {
        [Need { ordinal: 0, bytes }]
    }

    #[test]
    fn graphs_of_a_stream_share_their_memory() {
        let mut execs = execs(&[(1, 400, false), (2, 500, false)]);
        execs.launched(1, ONE, &grown(400));
        assert_eq!(
            [bytes(&execs, 1, ONE), bytes(&execs, 2, ONE), bytes(&execs, 2, TWO)],
            [0, 100, 500]
        );
        execs.launched(2, ONE, &grown(100));
        assert_eq!([bytes(&execs, 1, ONE), bytes(&execs, 2, ONE)], [0, 0]);
    }

    #[test]
    fn graph_whose_memory_another_stream_took_needs_it_again() {
        let mut execs = execs(&[(1, 400, false), (2, 400, false)]);
        execs.launched(1, ONE, &grown(400));
        execs.launched(2, TWO, &grown(400));
        assert_eq!([bytes(&execs, 1, ONE), bytes(&execs, 2, TWO)], [0, 0]);
        execs.launched(1, TWO, &grown(0)); // that of either
        assert_eq!([bytes(&execs, 1, ONE), bytes(&execs, 2, TWO)], [400, 0]);
        execs.launched(2, ONE, &grown(0));
        assert_eq!(bytes(&execs, 1, TWO), 400);
    }

    #[test]
    fn graph_that_leaves_allocations_shares_with_no_other() {
        let mut execs = execs(&[(1, 400, true), (2, 400, true), (3, 400, false)]);
        execs.launched(1, ONE, &grown(400));
        assert_eq!([bytes(&execs, 1, ONE), bytes(&execs, 2, ONE)], [0, 400]);
        execs.launched(3, ONE, &grown(0)); // that of the first one, which was freed meanwhile
        assert_eq!([bytes(&execs, 1, ONE), bytes(&execs, 3, ONE)], [0, 0]);
        execs.launched(1, ONE, &grown(0));
        assert_eq!([bytes(&execs, 1, ONE), bytes(&execs, 3, ONE)], [0, 400]);
    }

    #[test]
    fn graphs_for_which_a_driver_takes_units_share_them() {
        let mut execs = execs(&[(1, 400, false), (2, 500, false)]);
        execs.launched(1, ONE, &grown(POOL_UNIT));
        execs.note_unreserved(POOL_UNIT - 400);
        assert_eq!(
            [bytes(&execs, 1, ONE), bytes(&execs, 2, ONE), bytes(&execs, 2, TWO)],
            [0, 0, POOL_UNIT]
        );
        execs.note_unreserved(POOL_UNIT); // it has taken more all the same
        assert_eq!(bytes(&execs, 2, ONE), POOL_UNIT);
    }

    #[test]
    fn child_graph_that_is_replaced_is_needed_once() {
        let of = |bytes| GraphNeeds { each: vec![Need { ordinal: 0, bytes }], leaves: false };
        let mut execs = execs(&[(1, 500, false)]);
        execs.replace_child(1, 7, &of(400), &of(600));
        assert_eq!(bytes(&execs, 1, ONE), 700);
        execs.replace_child(1, 7, &of(400), &of(100)); // it keeps its memory
        assert_eq!(bytes(&execs, 1, ONE), 700);
        execs.replace_child(1, 7, &of(400), &of(800));
        assert_eq!(bytes(&execs, 1, ONE), 900);
    }
}
