//! Shape of a graph: its nodes in the driver's order, with their predecessors.

use super::calls;
use std::collections::{HashMap, HashSet};

/// Nodes of a graph.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    pub(super) nodes: Vec<Node>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) handle: usize,
    pub(super) kind: Kind,
    /// Indices of its predecessors.
    pub(super) after: Vec<usize>,
    /// True if it may begin before one of them has ended. A gate in between would prevent that.
    pub(super) overlaps: bool,
    /// True if one of its successors may begin before it has ended.
    pub(super) is_overlapped: bool,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// A kernel, with its number of blocks.
    Kernel(u64),
    /// A child graph.
    Child(Shape),
    /// A gate that was inserted when the graph was captured.
    Gate,
    /// A node that takes no time, or only that of copy engines.
    Other,
}

/// Reason for which a graph gets no gates, for the report.
pub(crate) type UngatedReason = &'static str;

const UNKNOWN: UngatedReason = "the driver doesn't say what is in it";

impl Shape {
    /// Reads a graph from the driver.
    pub(crate) fn read(graph: usize) -> Result<Self, UngatedReason> {
        let handles = calls::nodes(graph).ok_or(UNKNOWN)?;
        let place: HashMap<_, _> =
            handles.iter().enumerate().map(|(at, node)| (*node, at)).collect();
        let mut nodes = Vec::with_capacity(handles.len());
        for &handle in &handles {
            let kind = Kind::read(handle)?;
            nodes.push(Node {
                handle,
                kind,
                after: Vec::new(),
                overlaps: false,
                is_overlapped: false,
            });
        }
        for (from, to, overlaps) in calls::edges(graph).ok_or(UNKNOWN)? {
            let from = *place.get(&from).ok_or(UNKNOWN)?;
            let node = place.get(&to).and_then(|&to| nodes.get_mut(to)).ok_or(UNKNOWN)?;
            node.after.push(from);
            node.overlaps |= overlaps;
            nodes.get_mut(from).into_iter().for_each(|node| node.is_overlapped |= overlaps);
        }
        Ok(Self { nodes })
    }
}

impl Shape {
    /// Returns whether it has gates of its capture. Gates of child graphs don't count.
    pub(crate) fn is_gated(&self) -> bool {
        self.nodes.iter().any(Node::is_gate)
    }
}

impl Shape {
    /// Returns whether it or a child graph has gates of its capture.
    pub(super) fn has_gates(&self) -> bool {
        let inner = |kind: &Kind| matches!(kind, Kind::Child(shape) if shape.has_gates());
        self.is_gated() || self.nodes.iter().any(|node| inner(&node.kind))
    }

    /// Returns the indices of the nodes between which and this one there are gates alone.
    pub(super) fn before_gates(&self, at: usize) -> Vec<usize> {
        let direct = self.nodes.get(at).map(|node| node.after.clone()).unwrap_or_default();
        let (mut open, mut seen, mut found) = (direct.clone(), HashSet::new(), Vec::new());
        while let Some(before) = open.pop() {
            let Some(node) = self.nodes.get(before).filter(|_| seen.insert(before)) else {
                continue;
            };
            match node.kind {
                Kind::Gate => open.extend(&node.after),
                _ if direct.contains(&before) => {}
                _ => found.push(before),
            }
        }
        found
    }
}

impl Node {
    /// Returns whether it is a gate of the capture.
    pub(super) fn is_gate(&self) -> bool {
        matches!(self.kind, Kind::Gate)
    }
}

impl Shape {
    /// Returns whether some of its nodes may begin before their predecessors have ended.
    pub(crate) fn overlaps(&self) -> bool {
        let inner = |kind: &Kind| matches!(kind, Kind::Child(shape) if shape.overlaps());
        self.nodes.iter().any(|node| node.overlaps || inner(&node.kind))
    }
}

/// Returns whether a graph has gates of its capture, whatever its other nodes are.
pub(crate) fn was_gated(graph: usize) -> bool {
    let is_gate = |node| calls::kind(node) == Some(12) && calls::is_gate(node) == Some(true);
    calls::nodes(graph).into_iter().flatten().any(is_gate)
}

impl Kind {
    fn read(node: usize) -> Result<Self, UngatedReason> {
        match calls::kind(node).ok_or(UNKNOWN)? {
            0 if calls::is_device_updatable(node) => Err("kernels may change nodes of it"),
            0 => {
                let grid = calls::kernel(node).ok_or(UNKNOWN)?.grid;
                let blocks = |product: u64, side| product.saturating_mul(u64::from(side));
                Ok(Self::Kernel(grid.into_iter().fold(1, blocks)))
            }
            4 => {
                let child = calls::child(node).ok_or(UNKNOWN)?;
                Ok(Self::Child(Shape::read(child)?))
            }
            // The driver's restrictions: such a graph can't be cloned, and no edge of it can be
            // removed.
            10 | 11 => Err("it has memory nodes"),
            12 if calls::is_gate(node).ok_or(UNKNOWN)? => Ok(Self::Gate),
            // It can't be cloned, and bodies of such nodes may not have memory operations in them.
            13 => Err("it has conditional nodes"),
            // Copies, fills, host calls, empty nodes, events, semaphores, memory operations.
            1..=3 | 5..=9 | 12 => Ok(Self::Other),
            _ => Err("it has nodes of a kind that isn't known"),
        }
    }
}
