//! Instantiation of a best-effort program's graph: of a clone, if it gets gates or slices.

use super::execs;
use super::insert::{Gate, GatedClone, insert};
use super::kernel_nodes;
use super::positions::GatePositions;
use super::shape::{Shape, UngatedReason, was_gated};
use super::slices::{MAX_SLICES, long_launches};
use crate::catch_panics::catch_panics;
use crate::driver::calls;
use crate::driver::state::Inside;
use crate::explain;
use crate::guest::find;
use crate::guest::tree::branch::Branch;
use crate::guest::ungated_captures;
use crate::kernel_variants::nodes::LongKernels;
use crate::settings::settings;
use std::sync::atomic::Ordering::Relaxed;

/// Makes an executable graph at `to` by `real`, of the program's graph or of a clone with gates. A
/// graph that kernels launch (`from_device`) may not have any, so it is made of a clone without
/// those of its capture.
pub(crate) fn instantiate(
    to: *mut usize,
    graph: usize,
    from_device: bool,
    real: impl Fn(usize) -> u32,
) -> u32 {
    let inside = Inside::enter();
    if inside.is_some() && from_device {
        catch_panics(note_from_device);
    }
    let plan = || if from_device { plan_without(graph) } else { plan(graph) };
    if inside.is_some() && !to.is_null() && instantiate_clone(to, graph, plan, &real) {
        return 0;
    }
    let code = real(graph);
    // SAFETY: null, or where the driver has just written.
    if let (0, Some(exec)) = (code, unsafe { to.as_ref() }) {
        catch_panics(|| execs::forget(*exec)); // its handle came back: it was destroyed unseen
        if inside.is_some() {
            catch_panics(|| kernel_nodes::note(*exec, graph));
        }
    }
    code
}

/// Puts a graph into a node of another one by `real`: a clone without gates, if the other one is
/// the body of a conditional node, which may have none.
pub(crate) fn put_child(graph: usize, child: usize, real: impl FnOnce(usize) -> u32) -> u32 {
    let Some(_inside) = Inside::enter().filter(|_| ungated_captures::is_body(graph)) else {
        return real(child);
    };
    put_without(child, real)
}

/// Puts another graph into a node of an executable graph by `real`: a clone without gates, if the
/// graph that the node was made with has none. The driver takes no other shape.
pub(super) fn change_child(node: usize, child: usize, real: impl FnOnce(usize) -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return real(child) };
    let has_none = catch_panics(|| {
        let first = Shape::read(super::calls::child(node)?).ok()?;
        Some(!first.has_gates())
    });
    if has_none == Some(true) { put_without(child, real) } else { real(child) }
}

/// Makes a call with a graph, or with a clone without the gates of its capture.
fn put_without(child: usize, real: impl FnOnce(usize) -> u32) -> u32 {
    let without = catch_panics(|| {
        let (shape, gate, all) = plan_without(child)?;
        all.first().and_then(|positions| insert(child, &shape, positions, gate))
    });
    real(without.as_ref().map_or(child, |clone| clone.graph))
}

/// Notes a graph that kernels of a best-effort program may launch.
fn note_from_device() {
    if find::current().is_some_and(|branch| !branch.context.device.is_real_time()) {
        explain::note_ungated("kernels may launch it; the gate is before the graph of these");
    }
}

/// Makes an executable graph of a clone. Returns whether there is one.
fn instantiate_clone(
    to: *mut usize,
    graph: usize,
    plan: impl FnOnce() -> Option<Plan>,
    real: impl Fn(usize) -> u32,
) -> bool {
    let Some((shape, gate, all)) = catch_panics(plan) else { return false };
    for positions in all {
        let Some(gated) = catch_panics(|| insert(graph, &shape, &positions, gate)) else {
            explain::note_ungated("the driver refused to clone it or to take gates in");
            continue;
        };
        if real(gated.graph) == 0 {
            // SAFETY: where the driver has just written.
            catch_panics(|| note(unsafe { *to }, gated, positions, gate));
            return true;
        }
        explain::note_ungated("the driver didn't take it with gates");
    }
    false
}

/// Notes an executable graph that was made from a clone.
fn note(exec: usize, gated: GatedClone, positions: GatePositions, gate: Gate) {
    find::find_context(gate.context).into_iter().for_each(|branch| {
        branch.context.device.page.counts.graph_gates.fetch_add(positions.count(), Relaxed);
    });
    positions.note_slices();
    execs::add(exec, gated, positions, gate);
}

/// Shape of a graph, its gate, and the positions that are tried one after the other.
type Plan = (Shape, Gate, Vec<GatePositions>);

fn gate(branch: &Branch) -> Gate {
    Gate { context: branch.context.handle(), address: branch.context.gate() }
}

/// Reads a graph of which the gates of its capture have to be removed. `None`: it has none.
fn plan_without(graph: usize) -> Option<Plan> {
    let shape = Shape::read(graph).ok().filter(Shape::has_gates)?;
    Some((shape, gate(find::current()?), vec![GatePositions::dropped()]))
}

/// Reads a graph. Positions without slices are tried if the driver refuses those. `None`: the graph
/// needs no gates, or can't have any; the report says why.
fn plan(graph: usize) -> Option<Plan> {
    let branch = find::current()?;
    if branch.context.device.is_real_time() {
        return None;
    }
    let gate = gate(branch);
    let shape = match shape(graph) {
        Ok(shape) => shape,
        Err(_) if was_gated(graph) => return None,
        Err(why) => {
            explain::note_ungated(why);
            return None;
        }
    };
    let is_gated = shape.is_gated();
    let gates = if is_gated { GatePositions::default() } else { GatePositions::of(&shape) };
    let slices = cut(&shape, gates.clone(), branch);
    let all = [slices, Some(gates)].into_iter().flatten();
    let all: Vec<_> = all.filter(|positions| positions.count() > 0).collect();
    if !is_gated && shape.overlaps() {
        let note = if all.is_empty() { explain::note_ungated } else { explain::note_partly_gated };
        note("its kernels may overlap, and a gate between them would prevent that");
    }
    (!all.is_empty()).then_some((shape, gate, all))
}

/// Adds slices of long kernels to the positions of gates. `None`: there are none.
fn cut(
    shape: &Shape,
    mut positions: GatePositions,
    branch: &'static Branch,
) -> Option<GatePositions> {
    // Other threads may capture meanwhile.
    calls::with_relaxed_capture(|| {
        let (long, mut left) = (LongKernels::of(branch), MAX_SLICES);
        if !long.is_empty() {
            let launches = long_launches(shape, &long);
            long.wait_for(&launches);
            let each = long.share(&launches, MAX_SLICES);
            positions.cut_all(shape, &long, each, &mut left);
        }
        (left < MAX_SLICES).then_some(positions)
    })
}

/// Reads the graph's shape, if it may be cloned.
fn shape(graph: usize) -> Result<Shape, UngatedReason> {
    if settings().clones_graphs { Shape::read(graph) } else { Err("REEF_GRAPHS=front") }
}

/// Destroys an executable graph.
pub(crate) fn destroy(exec: usize, real: impl Fn() -> u32) -> u32 {
    let Some(_inside) = execs::enter(exec) else { return real() };
    catch_panics(|| execs::forget(exec));
    real()
}
