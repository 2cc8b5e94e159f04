//! Peak memory of a graph's memory nodes.
//!
//! When a node allocates memory, that of another node is already freed if its free node comes
//! before, and not yet allocated if that node comes after. All other memory may exist at the same
//! time.

use super::calls::{Memory, child, edges, memory_of, nodes};
use crate::limit::pools::graphs::{GraphNeeds, Need};
use std::collections::{HashMap, HashSet};

/// Maximum depth of nested graphs, more than any program has.
const MAX_DEPTH: u32 = 64;

/// Allocation node, with all nodes that come before it.
#[derive(Debug)]
struct AllocationNode {
    node: usize,
    ordinal: i32,
    bytes: u64,
    end: Option<usize>,
    before: HashSet<usize>,
}

/// Returns the memory that a graph needs on each device, as if all of its child graphs had theirs
/// at once.
pub(crate) fn needs(graph: usize) -> GraphNeeds {
    let mut needs = GraphNeeds::default();
    add(graph, MAX_DEPTH, &mut needs);
    needs
}

pub(crate) fn needs_of_child(node: usize) -> GraphNeeds {
    child(node).map(needs).unwrap_or_default()
}

fn add(graph: usize, depth: u32, needs: &mut GraphNeeds) {
    let (mut allocations, mut ends) = (Vec::new(), HashMap::new());
    for node in nodes(graph).unwrap_or_default() {
        match memory_of(node) {
            Memory::Allocated { ordinal, bytes, address } => {
                allocations.push((node, ordinal, bytes, address));
            }
            Memory::Freed { address } => drop(ends.insert(address, node)),
            Memory::Inside(inner) if depth > 0 => add(inner, depth - 1, needs),
            Memory::Inside(_) | Memory::None => {}
        }
    }
    if allocations.is_empty() {
        return;
    }
    let before = parents(graph);
    let allocation = |(node, ordinal, bytes, address)| {
        let (end, before) = (ends.get(&address).copied(), ancestors(node, &before));
        AllocationNode { node, ordinal, bytes, end, before }
    };
    let allocations: Vec<_> = allocations.into_iter().map(allocation).collect();
    needs.leaves |= allocations.iter().any(|allocation| allocation.end.is_none());
    let needs = &mut needs.each;
    for AllocationNode { ordinal, .. } in &allocations {
        if needs.iter().all(|need| need.ordinal != *ordinal) {
            needs.push(Need { ordinal: *ordinal, bytes: 0 });
        }
    }
    for need in needs {
        let its: Vec<_> =
            allocations.iter().filter(|allocation| allocation.ordinal == need.ordinal).collect();
        let peak = its.iter().map(|allocation| peak_at(allocation, &its)).max().unwrap_or(0);
        need.bytes = need.bytes.saturating_add(peak);
    }
}

/// Returns the memory that may exist when a node allocates its own, including that.
fn peak_at(allocation: &AllocationNode, all: &[&AllocationNode]) -> u64 {
    let may_be = |other: &&&AllocationNode| {
        let is_gone = other.end.is_some_and(|end| allocation.before.contains(&end));
        !is_gone && !other.before.contains(&allocation.node)
    };
    all.iter().filter(may_be).fold(0, |sum: u64, other| sum.saturating_add(other.bytes))
}

/// Returns the direct predecessors of each node.
fn parents(graph: usize) -> HashMap<usize, Vec<usize>> {
    let mut parents: HashMap<_, Vec<_>> = HashMap::new();
    for (from, to, _) in edges(graph).unwrap_or_default() {
        parents.entry(to).or_default().push(from);
    }
    parents
}

fn ancestors(node: usize, parents: &HashMap<usize, Vec<usize>>) -> HashSet<usize> {
    let (mut found, mut open) = (HashSet::new(), vec![node]);
    while let Some(node) = open.pop() {
        let new = parents.get(&node).into_iter().flatten();
        open.extend(new.copied().filter(|parent| found.insert(*parent)));
    }
    found
}
