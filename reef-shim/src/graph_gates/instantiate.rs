//! Instantiation of a best-effort program's graph: of a clone, if it gets gates or slices.

use super::execs;
use super::insert::{Gate, GatedClone, insert};
use super::positions::GatePositions;
use super::shape::{Shape, UngatedReason, was_gated};
use super::slices::{MAX_SLICES, wait_for_twins};
use crate::catch_panics::catch_panics;
use crate::driver::calls;
use crate::driver::state::Inside;
use crate::explain;
use crate::guest::find;
use crate::guest::tree::branch::Branch;
use crate::settings::settings;
use crate::twins::nodes::LongKernels;
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
    let positions = positions(&shape, find::current()?);
    if positions.count() == 0 {
        return None;
    }
    let gated = insert(graph, &shape, &positions, gate);
    if gated.is_none() {
        explain::note_ungated("the driver refused to clone it or to take gates in");
    }
    Some((gated?, positions, gate))
}

/// Returns the positions of gates in a graph. One that has gates of its capture gets others with
/// slices alone.
fn positions(shape: &Shape, branch: &'static Branch) -> GatePositions {
    let is_gated = shape.is_gated();
    let mut positions = if is_gated { GatePositions::default() } else { GatePositions::of(shape) };
    // Other threads may capture meanwhile.
    calls::with_relaxed_capture(|| {
        let (long, mut left) = (LongKernels::of(branch), MAX_SLICES);
        if !long.is_empty() {
            wait_for_twins(shape, &long);
            positions.cut_all(shape, &long, &mut left);
        }
    });
    positions
}

/// Reads the graph's shape, if it may be cloned.
fn shape(graph: usize) -> Result<Shape, UngatedReason> {
    if settings().clones_graphs { Shape::read(graph) } else { Err("REEF_GRAPHS=front") }
}

/// Destroys an executable graph.
pub(crate) fn destroy(exec: usize, real: impl Fn() -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return real() };
    catch_panics(|| execs::forget(exec));
    real()
}
