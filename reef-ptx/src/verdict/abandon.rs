//! Places where a running block may be thrown away.
//!
//! Before its first effect a block has changed nothing that others see, so it may run again from
//! its start, whatever it does later. At a *look* all its threads decide that together:
//!
//! - No effect may run before a look, in any thread. Threads meet there equally often, and a thread
//!   that has had an effect would not come back.
//! - A look takes the place of a barrier of a loop. A loop without one gets a barrier only if the
//!   threads of a block share nothing, so that none waits for another.
//! - Copies that are under way when a block leaves must be ones that can be waited for.

use super::facts::Facts;
use super::in_flight;
use super::reason::{Cause, Reason};
use super::refuse::may_be_stopped;
use crate::flow::access::AccessKind;
use crate::flow::reach::{after, before, previous, round};
use crate::flow::uniform::Uniform;
use crate::text::statement::Instruction;

/// Place of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// Index of the instruction: a barrier that it takes the place of, or the first one of a loop.
    pub(crate) op: usize,
    pub(crate) is_barrier: bool,
    /// Instructions of a thread from one pass to the next, at least.
    pub(crate) round: usize,
}

/// Beyond this number of candidates in a kernel, each of them becomes a look.
const MAX_CANDIDATES: usize = 64;

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
    looks(facts).map(drop)
}

/// Places of looks, in the order of the text.
///
/// # Errors
///
/// The reason for which there is none.
pub(crate) fn looks(facts: &Facts<'_, '_>) -> Result<Vec<Look>, Reason> {
    may_be_stopped(facts)?;
    let cycles = facts.loops.cycles();
    if cycles.is_empty() {
        return Err(Reason::new(Cause::NoLoop));
    }
    let effects = effects(facts);
    let is_late = after(&facts.code, &effects);
    let early: Vec<usize> = cycles.iter().flatten().copied().filter(|op| !is_late[*op]).collect();
    if early.is_empty() {
        let cause = Cause::EffectFirst;
        return Err(effects.first().map_or_else(
            || Reason::new(cause.clone()),
            |first| facts.reason(cause.clone(), *first),
        ));
    }
    let candidates = candidates(facts, &effects, &early)?;
    let safe = in_flight::safe(facts, &candidates)?;
    Ok(places(facts, needed(facts, safe)))
}

/// Barriers of loops that all threads meet together, or first instructions of loops.
fn candidates(
    facts: &Facts<'_, '_>,
    effects: &[usize],
    early: &[usize],
) -> Result<Vec<usize>, Reason> {
    let is_apart = facts.find(|op| SHARING.contains(&op.base()) || op.has("shared")).is_none();
    let candidates: Vec<usize> = if is_apart {
        heads(facts, early)
    } else {
        early.iter().copied().filter(|op| is_whole_barrier(instruction(facts, *op))).collect()
    };
    if candidates.is_empty() {
        return Err(facts.reason(Cause::NoBarrier, early[0]));
    }
    let meetings: Vec<usize> =
        (0..facts.code.ops.len()).filter(|op| may_meet(instruction(facts, *op))).collect();
    let targets = [effects, &candidates, &meetings].concat();
    let uniform = Uniform::of(&facts.code, &facts.roots, &targets);
    // Each meeting before a look must be one of all threads, or phases would not be the same.
    let is_before = before(&facts.code, &candidates);
    let odd = meetings.iter().copied().find(|op| {
        let instruction = instruction(facts, *op);
        is_before[*op]
            && !(uniform.is_together(*op)
                && (is_whole_barrier(instruction) || is_whole_reduction(instruction)))
    });
    if let Some(op) = odd {
        return Err(facts.reason(Cause::Parted, op));
    }
    let first = candidates[0];
    let together: Vec<usize> =
        candidates.into_iter().filter(|op| uniform.is_together(*op)).collect();
    if together.is_empty() {
        return Err(facts.reason(Cause::Parted, first));
    }
    Ok(together)
}

fn instruction<'m, 'a>(facts: &Facts<'m, 'a>, op: usize) -> &'m Instruction<'a> {
    facts.code.ops[op].instruction
}

/// Targets of branches that lead back: first instructions of loops, at all depths.
fn heads(facts: &Facts<'_, '_>, early: &[usize]) -> Vec<usize> {
    let previous = previous(&facts.code);
    let is_head = |op: &usize| {
        previous[*op].iter().any(|from| from >= op && facts.loops.are_together(*from, *op))
    };
    early.iter().copied().filter(is_head).collect()
}

/// As few candidates as have the others' loops, too: those that come later are left out first.
fn needed(facts: &Facts<'_, '_>, mut all: Vec<usize>) -> Vec<usize> {
    if all.len() > MAX_CANDIDATES {
        return all;
    }
    all.sort_unstable();
    let mut dropped = Vec::new();
    for candidate in all.clone().into_iter().rev() {
        let mut rest = all.clone();
        rest.retain(|other| *other != candidate);
        dropped.push(candidate);
        if dropped.iter().all(|op| round(&facts.code, *op, &rest).is_none()) {
            all = rest;
        } else {
            dropped.pop();
        }
    }
    all
}

fn places(facts: &Facts<'_, '_>, ops: Vec<usize>) -> Vec<Look> {
    let place = |op: usize| Look {
        op,
        is_barrier: is_whole_barrier(instruction(facts, op)),
        round: round(&facts.code, op, &[]).unwrap_or(1),
    };
    ops.into_iter().map(place).collect()
}

/// Instructions with effects outside of the block, rising.
fn effects(facts: &Facts<'_, '_>) -> Vec<usize> {
    let written = facts.accesses.iter().filter(|access| {
        access.kind != AccessKind::Read || instruction(facts, access.op).has("mmio")
    });
    let mut effects: Vec<usize> = written.map(|access| access.op).collect();
    let ops = facts.code.ops.iter().enumerate();
    let calls = ops.filter(|(_, op)| op.instruction.base() == "call");
    effects.extend(calls.map(|(at, _)| at));
    effects.sort_unstable();
    effects
}

/// A barrier that may be number 0.
fn may_meet(op: &Instruction<'_>) -> bool {
    let is_of_block = matches!(op.base(), "bar" | "barrier") && !op.has("warp");
    let at = if op.has("red") { 1 } else { 0 };
    let is_other = op.operand(at).parse().is_ok_and(|number: u32| number != 0);
    is_of_block && !is_other
}

/// `bar.sync 0` or `barrier.sync 0` without a count of threads, for all.
fn is_whole_barrier(op: &Instruction<'_>) -> bool {
    may_meet(op)
        && op.has("sync")
        && op.guard.is_none()
        && op.operands.len() == 1
        && op.operand(0) == "0"
}

/// `bar.red.or.pred p, 0, q` and the like, for all.
fn is_whole_reduction(op: &Instruction<'_>) -> bool {
    may_meet(op)
        && op.has("red")
        && op.guard.is_none()
        && op.operands.len() == 3
        && op.operand(1) == "0"
}
