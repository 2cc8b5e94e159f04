//! Updates of executable graphs that were made from clones: what names the program's nodes.

use super::calls::KernelParams;
use super::execs;
use super::insert::{Gate, GatedClone, insert};
use super::instantiate::change_child;
use super::positions::GatePositions;
use super::shape::Shape;
use super::slices::Parts;
use crate::catch_panics::catch_panics;
use crate::driver::calls;

/// Updates an executable graph with a graph of the program's. `real` gets that graph, or a clone
/// with gates where the executable graph has them. After a failure `nodes` are translated to the
/// program's nodes.
pub(crate) fn update<const N: usize>(
    exec: usize,
    graph: usize,
    nodes: [*mut usize; N],
    real: impl Fn(usize) -> u32,
) -> u32 {
    let Some(_inside) = execs::enter(exec) else { return real(graph) };
    let gated = catch_panics(|| {
        execs::positions(exec).and_then(|(positions, gate)| insert_at(graph, &positions, gate))
    });
    let Some(gated) = gated else { return real(graph) };
    let code = real(gated.graph);
    catch_panics(|| execs::forget_kernels(exec));
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
    let Some(_inside) = execs::enter(exec) else { return real(node) };
    real(catch_panics(|| Some(execs::node(exec, node))).unwrap_or(node))
}

/// Version of a kernel node's parameters: the first one has neither a library's kernel nor a
/// context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParamsVersion {
    First,
    Later,
}

/// Gives a kernel's node of an executable graph other parameters, at this address.
///
/// # Safety
///
/// They are as the driver requires.
pub(crate) unsafe fn kernel(
    exec: usize,
    node: usize,
    params: usize,
    version: ParamsVersion,
    real: impl Fn(usize, usize) -> u32,
) -> u32 {
    let Some(_inside) = execs::enter(exec) else { return real(node, params) };
    let sliced = catch_panics(|| execs::sliced(exec, node)).filter(|_| params != 0);
    let Some(sliced) = sliced else {
        let node = catch_panics(|| Some(execs::node(exec, node))).unwrap_or(node);
        return real(node, params);
    };
    // SAFETY: `params` is not 0 here, and `# Safety` demands parameters of `version` there, as the
    // driver does.
    let program_params = unsafe { KernelParams::read(params, version == ParamsVersion::First) };
    let mut launch = program_params.launch(true);
    if launch.context == 0 {
        launch.context = calls::context(); // that is what the driver takes
    }
    let parts = Parts::of(&sliced.slices, &launch);
    let set = |parts: &Parts<'_>, at: usize| {
        parts.with(at, |own: &KernelParams| real(sliced.nodes[at], &raw const *own as usize))
    };
    let change = |at: usize| set(&parts, at).unwrap_or_else(|| real(sliced.nodes[at], params));
    let count = sliced.nodes.len();
    let code = match sliced.parts() {
        // The last one last: it has parameters that can't be set again.
        Some(former) if !former.are_slices() => {
            change_all(exec, 0..count, change, |at| set(&former, at))
        }
        former => change_all(exec, (0..count).rev(), change, |at| set(former.as_ref()?, at)),
    };
    if code == 0 {
        catch_panics(|| execs::note_kernels(exec, node, parts.kernels));
    }
    code
}

/// Changes the nodes that stand for one, in this order. If the driver refuses one, those before it
/// are changed `back`. If that can't be, the executable graph is not launched any more.
fn change_all(
    exec: usize,
    order: impl Iterator<Item = usize> + Clone,
    change: impl Fn(usize) -> u32,
    back: impl Fn(usize) -> Option<u32>,
) -> u32 {
    let mut codes = order.clone().map(change).enumerate();
    let Some((changed, code)) = codes.find(|(_, code)| *code != 0) else { return 0 };
    if !order.take(changed).all(|at| back(at) == Some(0)) {
        execs::note_broken(exec, code);
    }
    code
}

/// Enables or disables a node of an executable graph, with all its slices.
pub(crate) fn enable(exec: usize, node: usize, real: impl Fn(usize) -> u32) -> u32 {
    let Some(_inside) = execs::enter(exec) else { return real(node) };
    let nodes = catch_panics(|| match execs::sliced(exec, node) {
        Some(sliced) => Some(sliced.nodes),
        None => Some(vec![execs::node(exec, node)]),
    });
    let nodes = nodes.unwrap_or_else(|| vec![node]);
    change_all(exec, (0..nodes.len()).rev(), |at| real(nodes[at]), |_| None)
}

/// Puts another graph into a node of an executable graph.
pub(crate) fn child(
    exec: usize,
    node: usize,
    child: usize,
    real: impl Fn(usize, usize) -> u32,
) -> u32 {
    let Some(_inside) = execs::enter(exec) else {
        return change_child(node, child, |child| real(node, child));
    };
    let gated = catch_panics(|| {
        execs::child_positions(exec, node)
            .and_then(|(positions, gate)| insert_at(child, &positions, gate))
    });
    let node = catch_panics(|| Some(execs::node(exec, node))).unwrap_or(node);
    catch_panics(|| execs::forget_kernels(exec));
    real(node, gated.as_ref().map_or(child, |gated| gated.graph))
}
