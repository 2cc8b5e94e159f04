//! Blocks that may be thrown away while they run.
//!
//! Before its first effect a block has changed nothing that others see, so it may run again from
//! its start, whatever it does later.

use super::facts::Facts;
use super::reason::{Cause, Reason};
use super::refuse::may_be_stopped;
use crate::flow::access::AccessKind;

/// Instructions by which threads of a block depend on each other.
const SHARING: &[&str] = &[
    "activemask",
    "bar",
    "barrier",
    "elect",
    "ldmatrix",
    "match",
    "mbarrier",
    "mma",
    "movmatrix",
    "redux",
    "shfl",
    "stmatrix",
    "tcgen05",
    "vote",
    "wgmma",
    "wmma",
];

/// Answers whether a running block may be thrown away at some loop.
///
/// # Errors
///
/// The reason against it.
pub(super) fn may_be_abandoned(facts: &Facts<'_, '_>) -> Result<(), Reason> {
    may_be_stopped(facts)?;
    let cycles = facts.loops.cycles();
    if cycles.is_empty() {
        return Err(Reason::new(Cause::NoLoop));
    }
    let effects = effects(facts);
    let late = reachable(facts, &effects);
    let mut early = cycles.iter().filter(|cycle| cycle.iter().all(|op| !late[*op])).peekable();
    if early.peek().is_none() {
        let cause = Cause::EffectFirst;
        return Err(effects.first().map_or_else(
            || Reason::new(cause.clone()),
            |first| facts.reason(cause.clone(), *first),
        ));
    }
    let is_apart = facts.find(|op| SHARING.contains(&op.base()) || op.has("shared")).is_none();
    if is_apart || early.any(|cycle| cycle.iter().any(|op| is_whole_barrier(facts, *op))) {
        return Ok(());
    }
    Err(facts.reason(Cause::NoBarrier, cycles[0][0]))
}

/// Instructions with effects outside of the block, rising.
fn effects(facts: &Facts<'_, '_>) -> Vec<usize> {
    let written = facts.accesses.iter().filter(|access| access.kind != AccessKind::Read);
    let mut effects: Vec<usize> = written.map(|access| access.op).collect();
    let ops = facts.code.ops.iter().enumerate();
    let calls = ops.filter(|(_, op)| op.instruction.base() == "call");
    effects.extend(calls.map(|(at, _)| at));
    effects.sort_unstable();
    effects
}

/// For each instruction, whether it is one of `from` or may run after one.
fn reachable(facts: &Facts<'_, '_>, from: &[usize]) -> Vec<bool> {
    let mut reached = vec![false; facts.code.ops.len()];
    let mut work = from.to_vec();
    while let Some(at) = work.pop() {
        if !std::mem::replace(&mut reached[at], true) {
            work.extend(&facts.code.ops[at].next);
        }
    }
    reached
}

/// `bar.sync 0` or `barrier.sync 0` without a count of threads, for all.
fn is_whole_barrier(facts: &Facts<'_, '_>, op: usize) -> bool {
    let instruction = facts.code.ops[op].instruction;
    matches!(instruction.base(), "bar" | "barrier")
        && instruction.has("sync")
        && !instruction.has("warp")
        && instruction.guard.is_none()
        && instruction.operands.len() == 1
        && instruction.operand(0) == "0"
}
