//! Graphs that were built node by node: gates at their instantiation, and updates of the executable
//! graphs.

use crate::catch_panics::catch_panics;
use crate::driver::state::Inside;
use crate::explain;
use crate::graph_gates::execs;
use crate::graph_gates::insert::{Gate, GatedClone, insert};
use crate::graph_gates::positions::GatePositions;
use crate::graph_gates::shape::{Shape, UngatedReason, was_gated};
use crate::guest::find;
use crate::settings::settings;
use std::sync::atomic::Ordering::Relaxed;

/// Makes an executable graph at `to` by `real`, of the program's graph or of a clone with gates. A
/// graph that kernels launch (`from_device`) may not have any.
pub(crate) fn instantiate(
    to: *mut usize,
    graph: usize,
    from_device: bool,
    real: impl Fn(usize) -> u32,
) -> u32 {
    let Some(_inside) = Inside::enter() else { return real(graph) };
    let gated = catch_panics(|| if from_device || to.is_null() { None } else { prepare(graph) });
    let Some((gated, positions, gate)) = gated else { return real(graph) };
    if real(gated.graph) != 0 {
        explain::note_ungated("the driver didn't take it with gates");
        return real(graph);
    }
    catch_panics(|| {
        find::find_context(gate.context).into_iter().for_each(|branch| {
            branch.context.device.page.counts.graph_gates.fetch_add(positions.count(), Relaxed);
        });
        // SAFETY: where the driver has just written.
        execs::add(unsafe { *to }, gated, positions, gate);
    });
    0
}

/// Makes a clone with gates. `None`: the graph needs none, or can't have any; the report says why.
fn prepare(graph: usize) -> Option<(GatedClone, GatePositions, Gate)> {
    let context = &find::current()?.context;
    if context.device.is_real_time() {
        return None;
    }
    let gate = Gate { context: context.handle(), address: context.gate() };
    let shape = match shape(graph) {
        Ok(shape) => shape,
        Err(_) if was_gated(graph) => return None,
        Err(why) => {
            explain::note_ungated(why);
            return None;
        }
    };
    let positions = GatePositions::of(&shape);
    if positions.count() == 0 || shape.is_gated() {
        return None;
    }
    let gated = insert(graph, &shape, &positions, gate);
    if gated.is_none() {
        explain::note_ungated("the driver refused to clone it or to take gates in");
    }
    Some((gated?, positions, gate))
}

/// Reads the graph's shape, if it may be cloned.
fn shape(graph: usize) -> Result<Shape, UngatedReason> {
    if settings().clones_graphs { Shape::read(graph) } else { Err("REEF_GRAPHS=front") }
}

/// Updates an executable graph with a graph of the program's. `real` gets that graph, or a clone
/// with gates where the executable graph has them. After a failure `nodes` are translated to the
/// program's nodes.
pub(crate) fn update<const N: usize>(
    exec: usize,
    graph: usize,
    nodes: [*mut usize; N],
    real: impl Fn(usize) -> u32,
) -> u32 {
    let Some(_inside) = Inside::enter() else { return real(graph) };
    let gated = catch_panics(|| {
        execs::positions(exec).and_then(|(positions, gate)| insert_at(graph, &positions, gate))
    });
    let Some(gated) = gated else { return real(graph) };
    let code = real(gated.graph);
    if code != 0 {
        // SAFETY: null, or where the driver has just written.
        let nodes = nodes.into_iter().filter_map(|node| unsafe { node.as_mut() });
        nodes.for_each(|node| {
            *node = gated.original(*node).or_else(|| execs::original(exec, *node)).unwrap_or(0);
        });
    }
    code
}

/// Clones a graph, with gates at the positions of another one.
fn insert_at(graph: usize, positions: &GatePositions, gate: Gate) -> Option<GatedClone> {
    let shape = Shape::read(graph).ok()?;
    insert(graph, &shape, positions, gate)
}

/// Makes a call that names a node of an executable graph by the program's node.
pub(crate) fn node(exec: usize, node: usize, real: impl Fn(usize) -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return real(node) };
    real(catch_panics(|| Some(execs::node(exec, node))).unwrap_or(node))
}

/// Puts another graph into a node of an executable graph.
pub(crate) fn child(
    exec: usize,
    node: usize,
    child: usize,
    real: impl Fn(usize, usize) -> u32,
) -> u32 {
    let Some(_inside) = Inside::enter() else { return real(node, child) };
    let gated = catch_panics(|| {
        execs::child_positions(exec, node)
            .and_then(|(positions, gate)| insert_at(child, &positions, gate))
    });
    let node = catch_panics(|| Some(execs::node(exec, node))).unwrap_or(node);
    real(node, gated.as_ref().map_or(child, |gated| gated.graph))
}

/// Destroys an executable graph.
pub(crate) fn destroy(exec: usize, real: impl Fn() -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return real() };
    catch_panics(|| execs::forget(exec));
    real()
}
