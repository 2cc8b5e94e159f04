//! Executable graphs that were made from our clones.

use super::insert::{Gate, GatedClone};
use super::positions::GatePositions;
use super::slices::{Kernels, SlicedNode};
use crate::driver::state::Inside;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard};

/// Record of an executable graph. The clone lives as long, because its nodes name those of the
/// executable graph.
#[derive(Debug)]
struct Exec {
    clone: GatedClone,
    positions: GatePositions,
    gate: Gate,
    /// Driver's error of a change that only some slices of a node took, or 0.
    broken: u32,
}

/// True once a graph is broken: launches look for that.
static IS_ANY_BROKEN: AtomicBool = AtomicBool::new(false);

/// Records by handle. The lock is never held during a call of the driver.
static EXECS: LazyLock<Mutex<HashMap<usize, Exec>>> = LazyLock::new(Mutex::default);

fn execs() -> MutexGuard<'static, HashMap<usize, Exec>> {
    EXECS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Enters for a call on an executable graph that was made from a clone, after a panic too: its
/// nodes stay the clone's. `None`: pass the call on.
pub(super) fn enter(exec: usize) -> Option<Inside> {
    let is_ours = !Inside::is_here() && execs().contains_key(&exec);
    is_ours.then(Inside::always)
}

/// Notes that `exec` was made from this clone.
pub(crate) fn add(exec: usize, clone: GatedClone, positions: GatePositions, gate: Gate) {
    let former = execs().insert(exec, Exec { clone, positions, gate, broken: 0 });
    drop(former); // its handle came back: it was destroyed unseen
}

/// Forgets an executable graph that was destroyed, and destroys the clone.
pub(crate) fn forget(exec: usize) {
    let former = execs().remove(&exec);
    drop(former);
}

/// Notes what the nodes that stand for one launch now.
pub(super) fn note_kernels(exec: usize, node: usize, kernels: Kernels) {
    let mut execs = execs();
    let sliced = execs.get_mut(&exec).and_then(|exec| exec.clone.sliced.get_mut(&node));
    sliced.into_iter().for_each(|sliced| sliced.kernels = Some(kernels.clone()));
}

/// Notes an update by a graph.
pub(super) fn forget_kernels(exec: usize) {
    let mut execs = execs();
    let sliced = execs.get_mut(&exec).into_iter().flat_map(|exec| exec.clone.sliced.values_mut());
    sliced.for_each(|sliced| sliced.kernels = None);
}

/// Notes that only some slices of a node took a change: blocks would run twice, or not at all.
pub(super) fn note_broken(exec: usize, code: u32) {
    execs().get_mut(&exec).into_iter().for_each(|exec| exec.broken = code);
    IS_ANY_BROKEN.store(true, Relaxed);
}

/// Returns the driver's error with which an executable graph is broken.
#[inline]
pub(super) fn broken(exec: usize) -> Option<u32> {
    if !IS_ANY_BROKEN.load(Relaxed) {
        return None;
    }
    execs().get(&exec).map(|exec| exec.broken).filter(|code| *code != 0)
}

/// Returns the node that names the program's node in `exec` to the driver.
pub(crate) fn node(exec: usize, node: usize) -> usize {
    let known = execs().get(&exec).and_then(|exec| exec.clone.nodes.get(&node).copied());
    known.unwrap_or(node)
}

/// Returns the nodes of `exec` that stand for the program's node, if it is in slices.
pub(super) fn sliced(exec: usize, node: usize) -> Option<SlicedNode> {
    execs().get(&exec)?.clone.sliced.get(&node).cloned()
}

pub(crate) fn positions(exec: usize) -> Option<(GatePositions, Gate)> {
    execs().get(&exec).map(|exec| (exec.positions.clone(), exec.gate))
}

/// Returns the positions of gates in the child graph of the program's node, if it has some.
pub(crate) fn child_positions(exec: usize, node: usize) -> Option<(GatePositions, Gate)> {
    let execs = execs();
    let exec = execs.get(&exec)?;
    Some((exec.clone.children.get(&node)?.clone(), exec.gate))
}

/// Returns the program's node that a node of `exec` was made from.
pub(crate) fn original(exec: usize, clone: usize) -> Option<usize> {
    execs().get(&exec)?.clone.original(clone)
}
