//! Positions of gates in a graph: the kernels that have one before them, and those in slices.

use super::shape::{Kind, Shape};
use crate::kernel_variants::nodes::{LongKernels, NodeSlices};
use reef_guest::pace::in_graph;
use std::collections::HashSet;

/// Positions of gates: indices of kernels that have one before them, of kernels in slices, and the
/// positions in child graphs.
#[derive(Clone, Debug, Default)]
pub(crate) struct GatePositions {
    /// True if the gates of the capture are removed, from child graphs too.
    pub(super) are_dropped: bool,
    pub(super) kernels: Vec<usize>,
    pub(super) slices: Vec<(usize, NodeSlices)>,
    pub(super) children: Vec<(usize, GatePositions)>,
}

impl GatePositions {
    /// Positions of a graph that has none, not even those of its capture.
    pub(super) fn dropped() -> Self {
        Self { are_dropped: true, ..Self::default() }
    }

    /// Places gates so that no path through the graph is longer without one than in a captured
    /// graph.
    pub(crate) fn of(shape: &Shape) -> Self {
        Self::behind(shape, 0).0
    }

    /// Returns the number of gates.
    pub(crate) fn count(&self) -> u64 {
        let inner = self.children.iter().map(|(_, positions)| positions.count());
        let slices = self.slices.iter().map(|(_, slices)| slices.count() as u64);
        inner.sum::<u64>() + slices.sum::<u64>() + self.kernels.len() as u64
    }

    /// Notes all slices for the report.
    pub(super) fn note_slices(&self) {
        self.slices.iter().for_each(|(_, slices)| slices.note());
        self.children.iter().for_each(|(_, positions)| positions.note_slices());
    }

    /// Has a kernel launched in slices, each with a gate before it.
    fn cut(&mut self, at: usize, slices: NodeSlices) {
        self.kernels.retain(|kernel| *kernel != at);
        self.slices.push((at, slices));
    }

    /// Has the long kernels of a graph launched in slices, in `each` at most, of which `left` may
    /// still be made.
    pub(super) fn cut_all(
        &mut self,
        shape: &Shape,
        long: &LongKernels,
        each: u32,
        left: &mut usize,
    ) {
        for (at, node) in shape.nodes.iter().enumerate() {
            match &node.kind {
                Kind::Kernel(_) => {
                    let slices =
                        node.long_launch(long).and_then(|launch| long.slices(&launch, each, *left));
                    slices.into_iter().for_each(|slices| {
                        *left -= slices.count();
                        self.cut(at, slices);
                    });
                }
                Kind::Child(inner) => {
                    let mut positions = self.child(at).cloned().unwrap_or_default();
                    positions.cut_all(inner, long, each, left);
                    self.children.retain(|(place, _)| *place != at);
                    self.children.extend((positions.count() > 0).then_some((at, positions)));
                }
                Kind::Gate | Kind::Other => {}
            }
        }
    }

    /// Returns the positions in the child graph of this node.
    pub(super) fn child(&self, at: usize) -> Option<&Self> {
        self.children.iter().find(|(place, _)| *place == at).map(|(_, positions)| positions)
    }

    /// Places gates, with `since` small kernels from the last gate to the graph's beginning.
    /// Returns also the number from the last gate to its end.
    fn behind(shape: &Shape, since: u32) -> (Self, u32) {
        let mut positions = Self::default();
        let mut behind = vec![since; shape.nodes.len()];
        for at in order(shape) {
            let Some(node) = shape.nodes.get(at) else { continue };
            let before = node.after.iter().filter_map(|before| behind.get(*before)).max();
            let before = before.copied().unwrap_or(since);
            let after = match &node.kind {
                // No gate here: the next kernel that waits for its predecessors gets one.
                Kind::Kernel(blocks) if node.overlaps => {
                    before.saturating_add(in_graph(0, *blocks).1)
                }
                Kind::Kernel(blocks) => {
                    let (is_due, after) = in_graph(before, *blocks);
                    positions.kernels.extend(is_due.then_some(at));
                    after
                }
                Kind::Child(inner) => {
                    let (inner, after) = Self::behind(inner, before);
                    positions.children.extend((inner.count() > 0).then_some((at, inner)));
                    after
                }
                Kind::Gate => 0,
                Kind::Other => before,
            };
            behind.iter_mut().skip(at).take(1).for_each(|behind| *behind = after);
        }
        positions.kernels.sort_unstable();
        let ends = ends(shape).filter_map(|at| behind.get(at)).max();
        (positions, ends.copied().unwrap_or(since))
    }
}

/// Returns the indices of nodes without successors.
fn ends(shape: &Shape) -> impl Iterator<Item = usize> {
    let passed: HashSet<_> =
        shape.nodes.iter().flat_map(|node| node.after.iter().copied()).collect();
    (0..shape.nodes.len()).filter(move |at| !passed.contains(at))
}

/// Returns indices in an order in which each node comes after its predecessors. Nodes of a cycle,
/// which no driver returns, are left out.
fn order(shape: &Shape) -> Vec<usize> {
    let mut next = vec![Vec::new(); shape.nodes.len()];
    let mut missing: Vec<_> = shape.nodes.iter().map(|node| node.after.len()).collect();
    for (at, node) in shape.nodes.iter().enumerate() {
        node.after
            .iter()
            .for_each(|before| next.get_mut(*before).into_iter().for_each(|next| next.push(at)));
    }
    let mut ready: Vec<_> = (0..missing.len()).filter(|at| missing.get(*at) == Some(&0)).collect();
    let mut done = 0;
    while let Some(&at) = ready.get(done) {
        done += 1;
        for &after in next.get(at).into_iter().flatten() {
            let Some(left) = missing.get_mut(after) else { continue };
            *left -= 1;
            ready.extend((*left == 0).then_some(after));
        }
    }
    ready
}
